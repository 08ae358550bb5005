// Package luks encrypts volumes with cryptsetup: a LUKS2 header at the beginning of a device, and a
// mapping of dm-crypt above it while the volume is up.
//
//	hfc-<uuid>   the mapping of volume hf-<uuid>
//
// Passphrases reach cryptsetup through its standard input, byte for byte; with two of them
// the length of the first tells them apart (S63). A slot is always named: which passphrase is in which slot
// is what a rotation depends on (S64).
//
// Discards pass to the device below only where that is asked for: who reads the pool learns from them
// which blocks are in use, and nothing of their content.
package luks
