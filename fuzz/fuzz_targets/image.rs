//! Any bytes as a layer, and as the documents of an image: whiteouts stay in the image, no variable
//! of a loader is kept, and no user is root.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    stockade_image::fuzzing::layer(bytes);
    stockade_image::fuzzing::documents(bytes);
});
