package executor

// VolumeFacts is what a host observes of its replica of a volume beside what it reports.
type VolumeFacts struct {
	// AllocatedKnown: the pool can tell how many bytes it allocates for the volume, Allocated.
	AllocatedKnown bool
	Allocated      int64
	// HeaderBackup is the UUID of the LUKS header that the host has a backup of; empty: it has none.
	HeaderBackup string
	// HeaderBackupGeneration is the key generation that it is of.
	HeaderBackupGeneration uint64
}
