//! What the ids of contigs tell.

/// Between the parts of an id.
const BETWEEN: &str = "__";

/// The sample that an id names: of `BCR__ECT-A-B-C__CT1-1`, what follows the first dash of the second part, with dots for
/// dashes. None for an id of another form.
///
/// ```
/// use seekset_core::eden::sample_of;
/// assert_eq!(sample_of("BCR__ECT-A-B-C__CT1-1").as_deref(), Some("A.B.C"));
/// assert_eq!(sample_of("chr1"), None);
/// ```
#[must_use]
pub fn sample_of(id: &str) -> Option<String> {
    let (_, sample) = id.split(BETWEEN).nth(1)?.split_once('-')?;
    (!sample.is_empty()).then(|| sample.replace('-', "."))
}

/// The two first parts of an id, with what parts them from the rest: all ids of one sample that begin alike. None where
/// there is no rest.
pub(super) fn beginning(id: &str) -> Option<&str> {
    let mut places = id.match_indices(BETWEEN);
    let (at, between) = places.nth(1)?;
    Some(&id[..at + between.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_what_follows_the_first_dash_of_the_second_part() {
        let cases = [
            ("BCR__EXT-SAMPLE1__CT1-1", Some("SAMPLE1")),
            ("a__b-c", Some("c")),
            ("a__b-c-__d", Some("c.")),
            ("a__-c__d", Some("c")),
            ("____-c", None),
            ("a__b__-c", None),
            ("a__b-__c", None),
            ("", None),
        ];
        for (id, sample) in cases {
            assert_eq!(sample_of(id).as_deref(), sample, "{id}");
        }
    }

    #[test]
    fn beginnings_are_two_parts() {
        let cases = [
            ("a__b-c__d", Some("a__b-c__")),
            ("a__b__c__d", Some("a__b__")),
            ("a__b", None),
            ("a", None),
            ("____", Some("____")),
        ];
        for (id, beginning) in cases {
            assert_eq!(super::beginning(id), beginning, "{id}");
        }
    }
}
