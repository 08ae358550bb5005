// Package node is the node daemon: its flags, and the wiring of one host's
// executor with its pools, its mounts, its session and the CSI services.
package node
