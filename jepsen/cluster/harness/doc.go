// Package harness runs a whole Holdfast on this host and looks at it from the
// outside only: it builds the binary, starts `holdfast dev` as a child, reads
// cluster.json, speaks CSI on the unix sockets, sends signals to processes, and
// counts image files, loop devices and mounts in the kernel's own tables. It
// imports nothing of Holdfast's, so that what it finds holds for the product and
// not for its parts.
package harness
