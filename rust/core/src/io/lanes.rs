//! Loops over numbers that the processor's wider registers speed up: the same code, compiled a second time for those that
//! have them. What every x86 processor has can neither widen bytes nor compare numbers of 64 bits in one step.

/// Defines a function that runs a loop in the widest registers there are.
macro_rules! in_lanes {
    ($(#[$doc:meta])* $name:ident($($argument:ident: $kind:ty),*) $body:block) => {
        $(#[$doc])*
        #[inline]
        pub(crate) fn $name($($argument: $kind),*) {
            #[inline(always)]
            fn plainly($($argument: $kind),*) $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn widely($($argument: $kind),*) {
                plainly($($argument),*);
            }
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                // SAFETY: the processor was asked, and has AVX2.
                unsafe { widely($($argument),*) };
                return;
            }
            plainly($($argument),*);
        }
    };
}

/// Defines both loops for a kind of number.
macro_rules! loops {
    ($kind:ty, $widen:ident, $outside:ident) => {
        in_lanes! {
            /// Bytes as numbers of this kind.
            $widen(from: &[u8], to: &mut [$kind]) {
                to.iter_mut().zip(from).for_each(|(to, &from)| *to = from.into());
            }
        }
        in_lanes! {
            /// 0 for what lies between the ends of a range, which are part of it, and 1 elsewhere.
            $outside(values: &[$kind], range: ($kind, $kind), mask: &mut [f32]) {
                let (first, last) = range;
                mask.iter_mut().zip(values).for_each(|(mask, &value)| {
                    *mask = if (value < first) | (value > last) { 1.0 } else { 0.0 };
                });
            }
        }
    };
}
loops!(u8, widen_to_u8, outside_u8);
loops!(i32, widen_to_i32, outside_i32);
loops!(i64, widen_to_i64, outside_i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_do_what_one_step_after_another_does() {
        let bytes: Vec<u8> = (0..=255).chain(3..40).collect();
        let (mut long, mut short) = (vec![-1; bytes.len()], vec![-1; bytes.len()]);
        widen_to_i64(&bytes, &mut long);
        widen_to_i32(&bytes, &mut short);
        assert!(bytes.iter().zip(&long).all(|(&byte, &wide)| i64::from(byte) == wide));
        assert!(bytes.iter().zip(&short).all(|(&byte, &wide)| i32::from(byte) == wide));
        let mut mask = vec![9.0; long.len()];
        outside_i64(&long, (2, 5), &mut mask);
        let expected: Vec<f32> = long.iter().map(|value| f32::from(u8::from(!(2..=5).contains(value)))).collect();
        assert_eq!(mask, expected);
        outside_i32(&short, (2, 5), &mut mask);
        assert_eq!(mask, expected);
        outside_u8(&bytes, (2, 5), &mut mask);
        assert_eq!(mask, expected);
    }
}
