//! Small files below `/etc` that are the same in every sandbox.

/// The host name inside.
pub(super) const HOST_NAME: &str = "sandbox";

/// The files that name users. An image's own are kept.
pub(crate) const ACCOUNTS: [&str; 2] = ["/etc/passwd", "/etc/group"];

/// The certificates that programs must trust, if connections are opened.
pub(crate) const AUTHORITIES: &str = "/etc/stockade/authorities.pem";

/// The bundles of the system, which then have the same content.
pub(super) const BUNDLES: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Paths and contents; the user's home is `/tmp`.
pub(super) const FILES: [(&str, &str); 5] = [
    (
        "/etc/passwd",
        "root:x:0:0:root:/tmp:/bin/sh\n\
         agent:x:1000:1000:agent:/tmp:/bin/sh\n\
         nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
    ),
    ("/etc/group", "root:x:0:\nagent:x:1000:\nnogroup:x:65534:\n"),
    ("/etc/hosts", "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost\n"),
    ("/etc/hostname", "sandbox\n"),
    // Host names come only from `/etc/hosts` and DNS, not from a service behind a host socket.
    (
        "/etc/nsswitch.conf",
        "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nprotocols: files\n\
         services: files\n",
    ),
];
