// Package rootfs makes the file tree below the program in the image: Debian packages of exact versions, unpacked by
// mmdebstrap without their scripts, less what nothing calls, with users and certificates.
package rootfs
