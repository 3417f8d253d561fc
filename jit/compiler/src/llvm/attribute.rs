//! Attributes of functions, calls and parameters, and calling conventions.

use super::copy_text;
use super::edit::Edit;
use super::function::Function;
use super::instruction::Call;
use super::types::Type;
use super::value::Value;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::{LLVMAttributeRef, LLVMValueRef};
use inkwell::llvm_sys::{LLVMAttributeFunctionIndex, LLVMAttributeIndex, LLVMAttributeReturnIndex};
use std::collections::HashMap;
use std::ffi::c_uint;
use std::sync::LazyLock;

/// An attribute that is added here; those that are read go by their names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Attribute {
    Align(u32),
    AlwaysInline,
    Convergent,
    Dereferenceable(u64),
    /// `memory(none)`.
    NoMemory,
    NoAlias,
    NoInline,
    NoUnwind,
    /// No pass of functions looks at it; it takes `noinline` besides.
    OptimizeNone,
    /// Rather small than fast.
    OptimizeForSize,
    ReadOnly,
    WillReturn,
}

impl Attribute {
    /// LLVM's name, and the value that it takes.
    fn spelled(self) -> (&'static str, u64) {
        match self {
            Attribute::Align(bytes) => ("align", bytes.into()),
            Attribute::AlwaysInline => ("alwaysinline", 0),
            Attribute::Convergent => ("convergent", 0),
            Attribute::Dereferenceable(bytes) => ("dereferenceable", bytes),
            Attribute::NoMemory => ("memory", 0),
            Attribute::NoAlias => ("noalias", 0),
            Attribute::NoInline => ("noinline", 0),
            Attribute::NoUnwind => ("nounwind", 0),
            Attribute::OptimizeNone => ("optnone", 0),
            Attribute::OptimizeForSize => ("optsize", 0),
            Attribute::ReadOnly => ("readonly", 0),
            Attribute::WillReturn => ("willreturn", 0),
        }
    }

    fn make(self, of: Value) -> LLVMAttributeRef {
        let (name, value) = self.spelled();
        // SAFETY: a kind that LLVM has, with a value if it takes one; attributes live as long as the context.
        unsafe { LLVMCreateEnumAttribute(of.ty().context(), kind(name), value) }
    }
}

/// LLVM's number of an attribute; 0, which is none's, if it has no such attribute.
fn kind(name: &str) -> c_uint {
    // SAFETY: the name is passed with its length.
    unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) }
}

/// LLVM numbers parameters from 1, behind the result.
fn parameter_index(parameter: u32) -> LLVMAttributeIndex {
    parameter.saturating_add(1).min(LLVMAttributeFunctionIndex - 1)
}

/// The value of an attribute that has an integer, or 0 for one that has none; `None` if it is absent.
///
/// # Safety
/// The attribute is null or alive.
unsafe fn integer(found: LLVMAttributeRef) -> Option<u64> {
    // SAFETY: stated above, and asked for its value only if it has one.
    unsafe { (!found.is_null() && LLVMIsEnumAttribute(found) != 0).then(|| LLVMGetEnumAttributeValue(found)) }
}

/// What of a function has attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Function,
    Result,
    Parameter(u32),
}

/// The attributes of LLVM 22 that functions, results and parameters may have: there is no way from a number to its name.
const NAMES: &str = "align alignstack allocalign allockind allocptr allocsize alwaysinline builtin byref byval captures cold \
    convergent coro_elide_safe coro_only_destroy_when_complete dead_on_return dead_on_unwind dereferenceable \
    dereferenceable_or_null disable_sanitizer_instrumentation elementtype fn_ret_thunk_extern hot hybrid_patchable immarg inalloca \
    initializes inlinehint inreg jumptable memory minsize mustprogress naked nest noalias nobuiltin nocallback nocf_check \
    nodivergencesource noduplicate noext nofpclass nofree noimplicitfloat noinline nomerge nonlazybind nonnull noprofile norecurse \
    noredzone noreturn nosanitize_bounds nosanitize_coverage nosync noundef nounwind null_pointer_is_valid optdebug optforfuzzing \
    optnone optsize preallocated presplitcoroutine range readnone readonly returned returns_twice safestack sanitize_address \
    sanitize_hwaddress sanitize_memory sanitize_memtag sanitize_numerical_stability sanitize_realtime sanitize_realtime_blocking \
    sanitize_thread sanitize_type shadowcallstack signext skipprofile speculatable speculative_load_hardening sret ssp sspreq \
    sspstrong strictfp swiftasync swifterror swiftself uwtable vscale_range willreturn writable writeonly zeroext";

fn name_of(number: c_uint) -> String {
    static KNOWN: LazyLock<HashMap<c_uint, &str>> =
        LazyLock::new(|| NAMES.split_whitespace().map(|name| (kind(name), name)).collect());
    KNOWN.get(&number).map_or_else(|| format!("attribute {number}"), |name| (*name).to_owned())
}

impl<'m> Function<'m> {
    /// The names of the attributes of a place, those that are text too.
    pub(crate) fn attributes_at(self, place: Place) -> Vec<String> {
        let place = match place {
            Place::Function => LLVMAttributeFunctionIndex,
            Place::Result => LLVMAttributeReturnIndex,
            Place::Parameter(index) => parameter_index(index),
        };
        // SAFETY: a function; LLVM writes one entry for each counted attribute, and attributes and their names live as long as
        // the context.
        unsafe {
            let mut list =
                vec![std::ptr::null_mut(); LLVMGetAttributeCountAtIndex(self.raw(), place) as usize];
            LLVMGetAttributesAtIndex(self.raw(), place, list.as_mut_ptr());
            let name = |attribute| {
                if LLVMIsStringAttribute(attribute) == 0 {
                    return name_of(LLVMGetEnumAttributeKind(attribute));
                }
                let mut length = 0;
                let text = LLVMGetStringAttributeKind(attribute, &mut length);
                copy_text(text, length as usize)
            };
            list.into_iter().map(name).collect()
        }
    }

    fn attribute(self, index: LLVMAttributeIndex, name: &str) -> LLVMAttributeRef {
        // SAFETY: a function; an index beyond its attributes and an unknown kind find nothing, which is null.
        unsafe { LLVMGetEnumAttributeAtIndex(self.raw(), index, kind(name)) }
    }

    /// The type of an attribute such as `byval(T)` of a parameter (from 0).
    pub(crate) fn parameter_type_attribute(self, parameter: u32, name: &str) -> Option<Type<'m>> {
        let found = self.attribute(parameter_index(parameter), name);
        // SAFETY: an attribute that holds a type, which lives as long as the context.
        unsafe {
            if found.is_null() || LLVMIsTypeAttribute(found) == 0 {
                return None;
            }
            Type::from_raw(LLVMGetTypeAttributeValue(found))
        }
    }

    /// The value of an integer attribute such as `align` of a parameter (from 0).
    pub(crate) fn parameter_integer_attribute(self, parameter: u32, name: &str) -> Option<u64> {
        // SAFETY: null or an attribute, which lives as long as the context.
        unsafe { integer(self.attribute(parameter_index(parameter), name)) }
    }

    /// True if the function itself has this attribute.
    pub(crate) fn has_attribute(self, name: &str) -> bool {
        !self.attribute(LLVMAttributeFunctionIndex, name).is_null()
    }
}

impl Call<'_> {
    /// The value of an integer attribute such as `align` of an argument (from 0).
    pub(crate) fn argument_integer_attribute(self, argument: u32, name: &str) -> Option<u64> {
        // SAFETY: a call; an index beyond its attributes and an unknown kind find nothing, which is null.
        unsafe { integer(LLVMGetCallSiteEnumAttribute(self.raw(), parameter_index(argument), kind(name))) }
    }
}

/// What has attributes and a calling convention.
#[derive(Clone, Copy)]
pub(crate) enum Carrier<'m> {
    Function(Function<'m>),
    Call(Call<'m>),
}

impl<'m> From<Function<'m>> for Carrier<'m> {
    fn from(function: Function<'m>) -> Self {
        Carrier::Function(function)
    }
}

impl<'m> From<Call<'m>> for Carrier<'m> {
    fn from(call: Call<'m>) -> Self {
        Carrier::Call(call)
    }
}

/// What LLVM has once for functions and once for calls.
struct Operations {
    count: unsafe extern "C" fn(LLVMValueRef, LLVMAttributeIndex) -> c_uint,
    list: unsafe extern "C" fn(LLVMValueRef, LLVMAttributeIndex, *mut LLVMAttributeRef),
    add: unsafe extern "C" fn(LLVMValueRef, LLVMAttributeIndex, LLVMAttributeRef),
    remove: unsafe extern "C" fn(LLVMValueRef, LLVMAttributeIndex, c_uint),
    remove_string: unsafe extern "C" fn(LLVMValueRef, LLVMAttributeIndex, *const std::ffi::c_char, c_uint),
}

const OF_FUNCTIONS: Operations = Operations {
    count: LLVMGetAttributeCountAtIndex,
    list: LLVMGetAttributesAtIndex,
    add: LLVMAddAttributeAtIndex,
    remove: LLVMRemoveEnumAttributeAtIndex,
    remove_string: LLVMRemoveStringAttributeAtIndex,
};

const OF_CALLS: Operations = Operations {
    count: LLVMGetCallSiteAttributeCount,
    list: LLVMGetCallSiteAttributes,
    add: LLVMAddCallSiteAttribute,
    remove: LLVMRemoveCallSiteEnumAttribute,
    remove_string: LLVMRemoveCallSiteStringAttribute,
};

impl<'m> Carrier<'m> {
    fn value(self) -> Value<'m> {
        match self {
            Carrier::Function(function) => **function,
            Carrier::Call(call) => **call,
        }
    }

    /// The operations that suit it.
    fn operations(self) -> Operations {
        match self {
            Carrier::Function(_) => OF_FUNCTIONS,
            Carrier::Call(_) => OF_CALLS,
        }
    }

    /// All places that have attributes: itself, the result, and each parameter or argument.
    fn places(self) -> impl Iterator<Item = LLVMAttributeIndex> {
        let count = match self {
            Carrier::Function(function) => function.parameters().len(),
            Carrier::Call(call) => call.arguments().len(),
        };
        (0..count as u32).map(parameter_index).chain([LLVMAttributeReturnIndex, LLVMAttributeFunctionIndex])
    }

    /// Removes all attributes of one place but those of these kinds.
    fn drop_at(self, place: LLVMAttributeIndex, keep: &[c_uint]) {
        let (raw, operations) = (self.value().raw(), self.operations());
        // SAFETY: the operations suit the value; LLVM writes one entry for each counted attribute, and attributes live as
        // long as the context, so that removing one leaves the list valid.
        unsafe {
            let mut list = vec![std::ptr::null_mut(); (operations.count)(raw, place) as usize];
            (operations.list)(raw, place, list.as_mut_ptr());
            for attribute in list {
                if LLVMIsStringAttribute(attribute) != 0 {
                    let mut length = 0;
                    let name = LLVMGetStringAttributeKind(attribute, &mut length);
                    (operations.remove_string)(raw, place, name, length);
                } else if !keep.contains(&LLVMGetEnumAttributeKind(attribute)) {
                    (operations.remove)(raw, place, LLVMGetEnumAttributeKind(attribute));
                }
            }
        }
    }
}

impl<'m> Edit<'m> {
    /// Gives a function or call the C calling convention.
    pub(crate) fn use_c_convention(self, carrier: impl Into<Carrier<'m>>) {
        const C: c_uint = 0;
        // SAFETY: a function and a call, each with what is for it.
        unsafe {
            match carrier.into() {
                Carrier::Function(function) => LLVMSetFunctionCallConv(function.raw(), C),
                Carrier::Call(call) => LLVMSetInstructionCallConv(call.raw(), C),
            }
        }
    }

    /// Removes every attribute of a function or call, its result and its parameters but those named.
    pub(crate) fn drop_attributes(self, carrier: impl Into<Carrier<'m>>, keep: &[&str]) {
        let (carrier, keep): (_, Vec<c_uint>) =
            (carrier.into(), keep.iter().map(|name| kind(name)).collect());
        carrier.places().for_each(|place| carrier.drop_at(place, &keep));
    }

    /// Removes an attribute of the function itself, if it has it.
    pub(crate) fn drop_attribute(self, function: Function<'m>, name: &str) {
        // SAFETY: a function; an absent attribute is no error.
        unsafe { LLVMRemoveEnumAttributeAtIndex(function.raw(), LLVMAttributeFunctionIndex, kind(name)) };
    }

    /// Adds attributes to a function or call itself.
    pub(crate) fn add_attributes(self, carrier: impl Into<Carrier<'m>>, attributes: &[Attribute]) {
        let carrier = carrier.into();
        let value = carrier.value();
        for attribute in attributes {
            // SAFETY: the operation suits the value, and the attribute is of its context.
            unsafe {
                (carrier.operations().add)(value.raw(), LLVMAttributeFunctionIndex, attribute.make(value));
            }
        }
    }

    /// Adds a string attribute to a function itself.
    pub(crate) fn add_string_attribute(self, function: Function<'m>, name: &str, value: &str) {
        // SAFETY: a function; name and value are passed with their lengths, and the attribute is of its context.
        unsafe {
            let text = |text: &str| (text.as_ptr().cast(), text.len() as c_uint);
            let ((name, length), (value, value_length)) = (text(name), text(value));
            let context = function.ty().context();
            let attribute = LLVMCreateStringAttribute(context, name, length, value, value_length);
            LLVMAddAttributeAtIndex(function.raw(), LLVMAttributeFunctionIndex, attribute);
        }
    }

    /// Removes an attribute that is text from the function itself, if it has it.
    pub(crate) fn drop_string_attribute(self, function: Function<'m>, name: &str) {
        let (text, length) = (name.as_ptr().cast(), name.len() as c_uint);
        // SAFETY: a function; the name is passed with its length, and an absent attribute is no error.
        unsafe { LLVMRemoveStringAttributeAtIndex(function.raw(), LLVMAttributeFunctionIndex, text, length) };
    }

    /// Adds attributes to a parameter (from 0). Panics if the function has no such parameter.
    pub(crate) fn add_parameter_attributes(
        self,
        function: Function<'m>,
        parameter: u32,
        attributes: &[Attribute],
    ) {
        assert!((parameter as usize) < function.parameters().len(), "no parameter {parameter}");
        for attribute in attributes {
            let (place, attribute) = (parameter_index(parameter), attribute.make(**function));
            // SAFETY: a function with such a parameter, and an attribute of its context.
            unsafe { LLVMAddAttributeAtIndex(function.raw(), place, attribute) };
        }
    }
}
