// Command imagetest tries the images that make image has built, with buildah and
// podman: what is in them, and that they run with nothing but what they need, as
// anybody, and end in order while sessions are open.
//
// Sluice runs in front of dsqlsim, which runs over a PostgreSQL of this machine; both
// have a read-only root, no capability, and a user that no file knows. Writers count
// what was acknowledged to them; behind the end of Sluice the table has just that.
package main
