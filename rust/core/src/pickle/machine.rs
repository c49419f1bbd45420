//! The stack machine that a pickle is a program for.

use super::heap::{Budget, Heap, Span, Value, damaged};
use super::opcode::{self as op, Cursor};
use super::{long, makers, text};
use crate::error::{Error, Result};

/// Entries of the memo whose number may be anything: as many as a byte tells. Picklers count from 0.
const FREE: usize = 256;
const HIGHEST_PROTOCOL: u8 = 5;
/// What Python's objects take, roughly: one for each opcode; and more where that is a dict or a set.
const OBJECT_BYTES: u64 = 64;
const CONTAINER_BYTES: u64 = 200;

struct Machine<'p> {
    cursor: Cursor<'p>,
    heap: Heap<'p>,
    stack: Vec<Value>,
    /// Where on the stack marks are.
    marks: Vec<usize>,
    /// What lies below belongs to an earlier mark.
    fence: usize,
    memo: Vec<Option<Value>>,
    kept: usize,
    objects: u64,
}

/// Runs a pickle to its end. Gives what it made, its value, and roughly what its objects take in Python.
pub fn run(pickle: &[u8], max_bytes: usize) -> Result<(Heap<'_>, Value, u64)> {
    let mut machine = Machine {
        cursor: Cursor::new(pickle),
        heap: Heap::new(pickle, max_bytes),
        stack: Vec::new(),
        marks: Vec::new(),
        fence: 0,
        memo: Vec::new(),
        kept: 0,
        objects: 0,
    };
    let found = loop {
        let opcode = machine.cursor.opcode()?;
        machine.objects += OBJECT_BYTES;
        if opcode == op::STOP {
            break machine.pop()?;
        }
        machine.step(opcode)?;
    };
    if !machine.cursor.is_at_end() {
        return Err(Error::unreadable("expected a pickle and nothing after it, but found more bytes"));
    }
    let Machine { heap, objects, .. } = machine;
    Ok((heap, found, objects))
}

fn underflow() -> Error {
    damaged("UnpicklingError: unexpected MARK found, or nothing on the stack")
}

impl Machine<'_> {
    fn step(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            op::BINGET => {
                let number = self.cursor.number::<1>()?;
                self.get(number)
            }
            op::LONG_BINGET => {
                let number = self.cursor.number::<4>()?;
                self.get(number)
            }
            op::BINPUT => {
                let number = self.cursor.number::<1>()?;
                self.put(number)
            }
            op::LONG_BINPUT => {
                let number = self.cursor.number::<4>()?;
                self.put(number)
            }
            op::MEMOIZE => self.put(self.kept as u64),
            op::MARK => {
                self.fence = self.stack.len();
                self.heap.budget.push(&mut self.marks, self.fence)
            }
            op::PROTO => match self.cursor.array::<1>()? {
                [..=HIGHEST_PROTOCOL] => Ok(()),
                [other] => Err(damaged(format!("ValueError: unsupported pickle protocol: {other}"))),
            },
            op::FRAME => self.cursor.begin_frame(),
            op::POP | op::POP_MARK | op::DUP => self.shuffle(opcode),
            op::GET | op::PUT => self.numbered(opcode),
            op::APPEND | op::APPENDS | op::SETITEM | op::SETITEMS | op::ADDITEMS => self.fill(opcode),
            op::TUPLE | op::TUPLE1 | op::TUPLE2 | op::TUPLE3 | op::LIST | op::DICT | op::FROZENSET => {
                self.gather(opcode)
            }
            op::GLOBAL | op::STACK_GLOBAL | op::REDUCE | op::BUILD => self.make(opcode),
            op::INST | op::OBJ | op::NEWOBJ | op::NEWOBJ_EX => self.refuse_class(opcode),
            op::PERSID | op::BINPERSID => Err(damaged("UnpicklingError: persistent ids are refused")),
            op::EXT1 | op::EXT2 | op::EXT4 => Err(damaged("ValueError: extension codes are refused")),
            op::NEXT_BUFFER | op::READONLY_BUFFER => {
                Err(damaged("UnpicklingError: buffers that are not in the pickle are refused"))
            }
            _ => {
                let value = self.literal(opcode)?;
                self.push(value)
            }
        }
    }

    /// A value that stands in the pickle as it is, or is empty.
    fn literal(&mut self, opcode: u8) -> Result<Value> {
        let bytes = |(start, len)| Value::Bytes(Span::new(start, len));
        Ok(match opcode {
            op::NONE => Value::None,
            op::NEWTRUE => Value::Bool(true),
            op::NEWFALSE => Value::Bool(false),
            op::BININT1 => Value::Int(self.cursor.number::<1>()? as i64),
            op::BININT2 => Value::Int(self.cursor.number::<2>()? as i64),
            op::BININT => Value::Int(i32::from_le_bytes(self.cursor.array()?).into()),
            op::BINFLOAT => Value::Float(f64::from_be_bytes(self.cursor.array()?)),
            op::SHORT_BINUNICODE => self.text::<1>()?,
            op::BINUNICODE => self.text::<4>()?,
            op::BINUNICODE8 => self.text::<8>()?,
            op::SHORT_BINBYTES => bytes(self.cursor.counted::<1>()?),
            op::BINBYTES => bytes(self.cursor.counted::<4>()?),
            op::BINBYTES8 => bytes(self.cursor.counted::<8>()?),
            op::BYTEARRAY8 => {
                let (start, len) = self.cursor.counted::<8>()?;
                Value::ByteArray(Span::new(start, len))
            }
            op::LONG1 => self.long::<1>()?,
            op::LONG4 => self.long::<4>()?,
            op::EMPTY_TUPLE => self.heap.make_tuple(&[])?,
            op::EMPTY_LIST => self.heap.make_list(&[])?,
            op::EMPTY_DICT => {
                self.objects += CONTAINER_BYTES;
                self.heap.make_dict()?
            }
            op::EMPTY_SET => {
                self.objects += CONTAINER_BYTES;
                makers::made_set(&mut self.heap, 0, false)?
            }
            _ => self.written(opcode)?,
        })
    }

    /// A value that is written as text, as in the oldest protocols.
    fn written(&mut self, opcode: u8) -> Result<Value> {
        Ok(match opcode {
            op::INT => match self.cursor.line()? {
                b"00" => Value::Bool(false),
                b"01" => Value::Bool(true),
                digits => long::from_digits(digits)?,
            },
            op::LONG => {
                let digits = self.cursor.line()?;
                long::from_digits(digits.strip_suffix(b"L").unwrap_or(digits))?
            }
            op::FLOAT => Value::Float(float(self.cursor.line()?)?),
            op::UNICODE => {
                let text = text::unescaped(self.cursor.line()?)?;
                Value::Text(self.heap.make(text.into_iter())?)
            }
            op::STRING => {
                let text = text::unquoted(self.cursor.line()?)?;
                Value::Text(self.heap.make(text.into_iter())?)
            }
            op::SHORT_BINSTRING => self.ascii::<1>()?,
            op::BINSTRING => self.ascii::<4>()?,
            other => return Err(damaged(format!("UnpicklingError: invalid load key, 0x{other:02x}"))),
        })
    }

    fn text<const N: usize>(&mut self) -> Result<Value> {
        let (start, len) = self.cursor.counted::<N>()?;
        let span = Span::new(start, len);
        text::check(self.heap.bytes(span))?;
        Ok(Value::Text(span))
    }

    fn ascii<const N: usize>(&mut self) -> Result<Value> {
        let (start, len) = self.cursor.counted::<N>()?;
        let span = Span::new(start, len);
        if !self.heap.bytes(span).is_ascii() {
            return Err(damaged("UnicodeDecodeError: expected a string of ASCII"));
        }
        Ok(Value::Text(span))
    }

    fn long<const N: usize>(&mut self) -> Result<Value> {
        let (start, len) = self.cursor.counted::<N>()?;
        Ok(long::from_bytes(self.heap.bytes(Span::new(start, len))))
    }

    fn push(&mut self, value: Value) -> Result<()> {
        self.heap.budget.push(&mut self.stack, value)
    }

    fn pop(&mut self) -> Result<Value> {
        if self.stack.len() <= self.fence {
            return Err(underflow());
        }
        self.stack.pop().ok_or_else(underflow)
    }

    fn top(&self) -> Result<Value> {
        self.stack.get(self.fence..).and_then(<[Value]>::last).copied().ok_or_else(underflow)
    }

    /// Takes the last mark away, and says where it was.
    fn mark(&mut self) -> Result<usize> {
        let mark = self.marks.pop().ok_or_else(|| damaged("UnpicklingError: could not find MARK"))?;
        self.fence = self.marks.last().copied().unwrap_or(0);
        Ok(mark)
    }

    fn shuffle(&mut self, opcode: u8) -> Result<()> {
        match opcode {
            op::DUP => {
                let top = self.top()?;
                return self.push(top);
            }
            op::POP if self.marks.last() != Some(&self.stack.len()) => {
                self.pop()?;
            }
            // A mark is popped like a value.
            _ => {
                let mark = self.mark()?;
                self.stack.truncate(mark);
            }
        }
        Ok(())
    }

    fn get(&mut self, number: u64) -> Result<()> {
        let kept = usize::try_from(number).ok().and_then(|number| self.memo.get(number).copied().flatten());
        let value = kept.ok_or_else(|| damaged(format!("UnpicklingError: Memo value not found at index {number}")))?;
        self.push(value)
    }

    fn put(&mut self, number: u64) -> Result<()> {
        let value = self.top()?;
        if number > (self.memo.len() + FREE) as u64 {
            let (start, kept) = (self.cursor.start(), self.kept);
            return Err(damaged(format!(
                "at byte {start} it keeps a value as number {number}, though it has kept no more than {kept}"
            )));
        }
        let number = number as usize;
        while self.memo.len() <= number {
            self.heap.budget.push(&mut self.memo, None)?;
        }
        self.kept += usize::from(self.memo[number].is_none());
        self.memo[number] = Some(value);
        Ok(())
    }

    /// The memo by numbers in digits.
    fn numbered(&mut self, opcode: u8) -> Result<()> {
        let digits = self.cursor.line()?;
        let number = match long::from_digits(digits)? {
            Value::Int(number) if number >= 0 => number as u64,
            Value::Long(_) => u64::MAX,
            _ => return Err(damaged("ValueError: negative PUT argument")),
        };
        if opcode == op::GET { self.get(number) } else { self.put(number) }
    }

    /// Puts what is on the stack into a list, a dict or a set below.
    fn fill(&mut self, opcode: u8) -> Result<()> {
        let len = self.stack.len();
        let at = match opcode {
            op::APPEND => len.checked_sub(1).ok_or_else(underflow)?,
            op::SETITEM => len.checked_sub(2).ok_or_else(underflow)?,
            _ => self.mark()?,
        };
        if at <= self.fence {
            return Err(underflow());
        }
        let Self { heap, stack, .. } = self;
        let (into, items) = (stack[at - 1], &stack[at..]);
        match (opcode, into) {
            _ if items.is_empty() => {}
            (op::APPEND | op::APPENDS, Value::List(list)) => {
                let list = &mut heap.lists[list as usize];
                heap.budget.reserve(list, items.len())?;
                list.extend_from_slice(items);
            }
            (op::SETITEM | op::SETITEMS, Value::Dict(dict)) => set_items(heap, dict, items)?,
            (op::ADDITEMS, Value::Set) => {
                items.iter().try_for_each(|&item| heap.check_key(item))?;
                makers::add_items(heap, items.len())?;
            }
            _ => return Err(damaged(format!("'{}' object can't be filled like this", heap.type_name(into)))),
        }
        self.stack.truncate(at);
        Ok(())
    }

    /// Makes a container of what is on the stack.
    fn gather(&mut self, opcode: u8) -> Result<()> {
        let counted = |count: usize| self.stack.len().checked_sub(count).filter(|&at| at >= self.fence);
        let at = match opcode {
            op::TUPLE1 => counted(1).ok_or_else(underflow)?,
            op::TUPLE2 => counted(2).ok_or_else(underflow)?,
            op::TUPLE3 => counted(3).ok_or_else(underflow)?,
            _ => self.mark()?,
        };
        let Self { heap, stack, .. } = self;
        let items = &stack[at..];
        let made = match opcode {
            op::LIST => heap.make_list(items)?,
            op::DICT => {
                let made = heap.make_dict()?;
                if let Value::Dict(dict) = made {
                    set_items(heap, dict, items)?;
                }
                made
            }
            op::FROZENSET => {
                items.iter().try_for_each(|&item| heap.check_key(item))?;
                makers::made_set(heap, items.len(), true)?
            }
            _ => heap.make_tuple(items)?,
        };
        self.objects += CONTAINER_BYTES;
        self.stack.truncate(at);
        self.push(made)
    }

    /// Names, calls and states.
    fn make(&mut self, opcode: u8) -> Result<()> {
        let made = match opcode {
            op::GLOBAL => {
                let (module, name) = (self.cursor.line()?, self.cursor.line()?);
                Value::Name(makers::find(module, name)?)
            }
            op::STACK_GLOBAL => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (Value::Text(module), Value::Text(name)) = (module, name) else {
                    return Err(damaged("UnpicklingError: STACK_GLOBAL requires str"));
                };
                Value::Name(makers::find(self.heap.bytes(module), self.heap.bytes(name))?)
            }
            op::REDUCE => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                makers::call(&mut self.heap, function, arguments)?
            }
            _ => {
                let state = self.pop()?;
                let value = self.top()?;
                return makers::build(&mut self.heap, value, state);
            }
        };
        self.push(made)
    }

    /// Classes are made in no other way than by a call of one of the makers.
    fn refuse_class(&mut self, opcode: u8) -> Result<()> {
        if opcode == op::INST {
            let (module, name) = (self.cursor.line()?, self.cursor.line()?);
            makers::find(module, name)?;
        }
        Err(damaged("UnpicklingError: objects of classes are refused"))
    }
}

fn set_items(heap: &mut Heap<'_>, dict: u32, items: &[Value]) -> Result<()> {
    let (pairs, rest) = items.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(damaged("UnpicklingError: odd number of items for a dict"));
    }
    for [key, _] in pairs {
        heap.check_key(*key)?;
    }
    let Heap { dicts, budget, .. } = heap;
    let entries = &mut dicts[dict as usize];
    Budget::reserve(budget, entries, pairs.len())?;
    entries.extend(pairs.iter().map(|&[key, value]| (key, value)));
    Ok(())
}

/// A number as Python writes it.
fn float(line: &[u8]) -> Result<f64> {
    let number =
        std::str::from_utf8(line).ok().filter(|text| !text.starts_with('+')).and_then(|text| text.parse().ok());
    number.ok_or_else(|| damaged("ValueError: could not convert string to float"))
}
