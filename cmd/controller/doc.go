// Package controller is the controller daemon: its flags, and the wiring of one
// Raft member with the CSI services, the hosts' sessions and the operators' API.
package controller
