package csiconv

// The secrets that open an encrypted volume. The one before is for the time of a rotation: either may
// be what the volume has (S64).
const (
	PassphraseSecret         = "encryptionPassphrase"
	PreviousPassphraseSecret = "previousEncryptionPassphrase"
)
