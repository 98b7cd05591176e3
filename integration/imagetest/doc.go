// Command imagetest tests the images that make image has built, with buildah and podman. It checks the images'
// contents, and that they run as any user with no more rights than they need. It also checks that they end in order
// while sessions are open.
//
// Sluice runs in front of dsqlsim, which runs over a PostgreSQL of this machine. Both containers have a read-only root,
// no capability, and a user id without an account. Writers count their acknowledged transactions. After the end of
// Sluice the table must have exactly these transactions.
package main
