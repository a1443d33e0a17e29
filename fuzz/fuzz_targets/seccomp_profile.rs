//! Any bytes as a seccomp profile: no panic, and what is accepted compiles or is too long.

#![no_main]

use stockade_seccomp::{Architecture, CompileError, CustomProfile, Host, compile, forbids_start};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(custom) = CustomProfile::parse(text) else { return };
    for architecture in Architecture::ALL {
        let Ok(profile) = custom.resolve(Host { architecture, kernel: (6, 1) }) else { continue };
        let _ = forbids_start(&profile, architecture);
        match compile(&profile, architecture) {
            Ok(_) | Err(CompileError::TooLong { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
});
