// Package dev runs a whole cluster on one host: each controller and node is a
// process of its own, of this same binary, with its own certificate and directory.
//
// Everything is in one directory, DIR:
//
//	cluster.json         what runs, for tests and the operators' commands
//	dev.json             what was chosen at the first start: numbers and ports
//	ca/ pki/             the CA; the processes' and operators' certificates
//	controllers/<id>/    a controller's data directory
//	nodes/<id>/data      a node's data directory
//	nodes/<id>/pool      a node's pool
//	log/<id>.log         what a process logged
//	sock/                the CSI sockets and the supervisor's own; below /run when the path is too long
//	lock                 held while the supervisor runs
//
// The kernel kills the children when the supervisor dies without stopping them.
package dev
