//! Code that leaves its memory, by each way that there is, is refused; and what is like it and stays within is not.

use super::flow::check;
use super::object::Image;
use spirula_interface::program::MEMORY_SYMBOL;

/// `movabs rax, spirula.memory`.
const MEMORY: [u8; 10] = [0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0];

/// What is said of code that has the memory's beginning in rax.
fn verdict(code: &[u8]) -> Result<(), String> {
    let code = [&MEMORY, code].concat();
    let refused = check(&Image::of_code(&code, &[(2, MEMORY_SYMBOL)]), "f");
    refused.into_iter().next().map_or(Ok(()), |refused| Err(refused.why))
}

/// Instructions, their bytes, and a part of what is said of them.
const REFUSED: [(&str, &[u8], &str); 26] = [
    ("mov edx, [rdi]", &[0x8b, 0x17, 0xc3], "4 bytes are read at Zero"),
    ("mov edx, [rax+rdi]", &[0x8b, 0x14, 0x38, 0xc3], "4 bytes are read at Zero"),
    ("mov [rax+rdi], edx", &[0x89, 0x14, 0x38, 0xc3], "4 bytes are written at Zero"),
    ("lock inc dword [rax+rdi]", &[0xf0, 0xff, 0x04, 0x38, 0xc3], "at Zero"),
    ("xchg [rax+rdi], edx", &[0x87, 0x14, 0x38, 0xc3], "at Zero"),
    (
        "mov ecx, edi; lea rcx, [rcx+rcx*8]; mov edx, [rax+rcx*8]",
        &[0x89, 0xf9, 0x48, 0x8d, 0x0c, 0xc9, 0x8b, 0x14, 0xc8, 0xc3],
        "at Memory",
    ),
    ("mov edx, [rax]; mov edx, [rdx]", &[0x8b, 0x10, 0x8b, 0x12, 0xc3], "at Zero + [0x0, 0xffffffff]"),
    ("mov rdx, [rax]; mov edx, [rdx]", &[0x48, 0x8b, 0x10, 0x8b, 0x12, 0xc3], "at Zero"),
    ("vpgatherqq ymm0, [rax+ymm1], ymm2", &[0xc4, 0xe2, 0xed, 0x91, 0x04, 0x08, 0xc3], "at Zero"),
    ("rep stosb", &[0x48, 0x89, 0xc7, 0xf3, 0xaa, 0xc3], "a string of any length"),
    // A loop without an end.
    (
        "xor ecx, ecx; l: mov [rax+rcx], edx; add rcx, 4; jmp l",
        &[0x31, 0xc9, 0x89, 0x14, 0x08, 0x48, 0x83, 0xc1, 0x04, 0xeb, 0xf7],
        "written at Zero",
    ),
    // One that steps over what it compares with: the number may be odd.
    (
        "mov edx, edi; xor ecx, ecx; l: mov [rax+rcx], edx; add rcx, 4; cmp rcx, rdx; jne l",
        &[
            0x89, 0xfa, 0x31, 0xc9, 0x89, 0x14, 0x08, 0x48, 0x83, 0xc1, 0x04, 0x48, 0x39, 0xd1, 0x75, 0xf4,
            0xc3,
        ],
        "written at Zero",
    ),
    ("mov [rsi], edx", &[0x89, 0x16, 0xc3], "4 bytes are written at Launch"),
    ("mov rdx, [rsi+0xd0]", &[0x48, 0x8b, 0x96, 0xd0, 0, 0, 0, 0xc3], "read at Launch"),
    ("mov [rsp], rdx", &[0x48, 0x89, 0x14, 0x24, 0xc3], "8 bytes are written at Stack + [0x0"),
    ("mov [rsp+8], rdx", &[0x48, 0x89, 0x54, 0x24, 0x08, 0xc3], "written at Stack"),
    ("mov rdx, [rsp-0x88]", &[0x48, 0x8b, 0x94, 0x24, 0x78, 0xff, 0xff, 0xff, 0xc3], "read at Stack"),
    ("mov rdx, fs:[0]", &[0x64, 0x48, 0x8b, 0x14, 0x25, 0, 0, 0, 0, 0xc3], "memory of the thread"),
    ("mov [rip], edx", &[0x89, 0x15, 0, 0, 0, 0, 0xc3], "written at Object"),
    ("jmp rdx", &[0xff, 0xe2], "jumps anywhere"),
    ("call rdx", &[0xff, 0xd2, 0xc3], "calls anything"),
    ("push rbx; ret", &[0x53, 0xc3], "returns with another stack"),
    ("mov rsp, rdx; ret", &[0x48, 0x89, 0xd4, 0xc3], "the stack pointer is lost"),
    (
        "sub rsp, 16; mov rdi, rsp; call f; add rsp, 16; ret; f: mov [rdi+13], edx; ret",
        &[
            0x48, 0x83, 0xec, 0x10, 0x48, 0x89, 0xe7, 0xe8, 5, 0, 0, 0, 0x48, 0x83, 0xc4, 0x10, 0xc3, 0x89,
            0x57, 0x0d, 0xc3,
        ],
        "4 bytes are written at Lent",
    ),
    (
        "push rbx; sub rsp, 8; mov rdi, rsp; call f; add rsp, 8; pop rbx; ret; f: mov [rdi+8], edx; ret",
        &[
            0x53, 0x48, 0x83, 0xec, 0x08, 0x48, 0x89, 0xe7, 0xe8, 6, 0, 0, 0, 0x48, 0x83, 0xc4, 0x08, 0x5b,
            0xc3, 0x89, 0x57, 0x08, 0xc3,
        ],
        "4 bytes are written at Lent",
    ),
    ("xor ebx, ebx; ret", &[0x31, 0xdb, 0xc3], "register 3 is not as it was"),
];

#[test]
fn code_that_leaves_its_memory_is_refused() {
    for (text, code, part) in REFUSED {
        let why = verdict(code).expect_err(text);
        assert!(why.contains(part), "{text}: {why}");
    }
}

const PERMITTED: [(&str, &[u8]); 9] = [
    ("mov ecx, edi; mov edx, [rax+rcx]", &[0x89, 0xf9, 0x8b, 0x14, 0x08, 0xc3]),
    ("mov ecx, edi; mov [rax+rcx*8], rdx", &[0x89, 0xf9, 0x48, 0x89, 0x14, 0xc8, 0xc3]),
    ("movsxd rcx, edi; mov edx, [rax+rcx*4+4]", &[0x48, 0x63, 0xcf, 0x8b, 0x54, 0x88, 0x04, 0xc3]),
    ("mov rdx, [rsi+0xc8]", &[0x48, 0x8b, 0x96, 0xc8, 0, 0, 0, 0xc3]),
    (
        "push rbx; xor ebx, ebx; mov [rsp-8], rbx; pop rbx",
        &[0x53, 0x31, 0xdb, 0x48, 0x89, 0x5c, 0x24, 0xf8, 0x5b, 0xc3],
    ),
    // The number's lowest bits are zeros, and it isn't zero.
    (
        "mov edx, edi; and edx, 0x7ffffffc; je e; xor ecx, ecx; l: mov [rax+rcx], edx; add rcx, 4; cmp rcx, rdx; jne l; e:",
        &[
            0x89, 0xfa, 0x81, 0xe2, 0xfc, 0xff, 0xff, 0x7f, 0x74, 0x0e, 0x31, 0xc9, 0x89, 0x14, 0x08, 0x48,
            0x83, 0xc1, 0x04, 0x48, 0x39, 0xd1, 0x75, 0xf4, 0xc3,
        ],
    ),
    (
        "mov edx, edi; xor ecx, ecx; l: mov [rax+rcx], edx; add rcx, 4; cmp rcx, rdx; jb l",
        &[
            0x89, 0xfa, 0x31, 0xc9, 0x89, 0x14, 0x08, 0x48, 0x83, 0xc1, 0x04, 0x48, 0x39, 0xd1, 0x72, 0xf4,
            0xc3,
        ],
    ),
    (
        "sub rsp, 16; mov rdi, rsp; call f; add rsp, 16; ret; f: mov [rdi+12], edx; ret",
        &[
            0x48, 0x83, 0xec, 0x10, 0x48, 0x89, 0xe7, 0xe8, 5, 0, 0, 0, 0x48, 0x83, 0xc4, 0x10, 0xc3, 0x89,
            0x57, 0x0c, 0xc3,
        ],
    ),
    ("lea rcx, [rax+rdi]; prefetcht0 [rcx]", &[0x48, 0x8d, 0x0c, 0x38, 0x0f, 0x18, 0x09, 0xc3]),
];

#[test]
fn code_that_stays_within_is_permitted() {
    for (text, code) in PERMITTED {
        verdict(code).unwrap_or_else(|why| panic!("{text}: {why}"));
    }
}

/// `cmp edi, 1; ja e; lea rdx, [table]; movsxd rcx, [rdx+rdi*4]; add rcx, rdx; jmp rcx; e: ret; table`, whose entries lead to the end
/// and to what stands behind the table.
fn switch(bound: u8, behind: &[u8]) -> Vec<u8> {
    let code = [
        &[0x89, 0xff, 0x83, 0xff, bound, 0x77, 0x10][..],
        &[0x48, 0x8d, 0x15, 0x0a, 0, 0, 0],
        &[0x48, 0x63, 0x0c, 0xba, 0x48, 0x01, 0xd1, 0xff, 0xe1],
        &[0xc3],
        &(-1_i32).to_le_bytes(),
        &8_i32.to_le_bytes(),
        behind,
    ];
    code.concat()
}

#[test]
fn all_of_a_table_of_jumps_is_followed() {
    verdict(&switch(1, &[0xc3])).unwrap();
    let why = verdict(&switch(1, &[0x8b, 0x17, 0xc3])).unwrap_err();
    assert!(why.contains("4 bytes are read at Zero"), "{why}");
    let why = verdict(&switch(2, &[0xc3, 0, 0, 0])).unwrap_err();
    assert!(why.contains("control leaves the code"), "{why}");
}
