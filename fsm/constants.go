package fsm

import "time"

// DedupeWindow is how many entries back a command may first have been proposed (S4).
const DedupeWindow = 65_536

// TopologyKey is the segment whose value is the node id.
const TopologyKey = "topology.holdfast.storage/node"

// ZoneKey is the segment whose value is the node's zone, where it has one.
const ZoneKey = "topology.holdfast.storage/zone"

// DefaultVolumeSize is for requests without a capacity range, in bytes.
const DefaultVolumeSize = 1 << 30

// MinXFSSize is the smallest xfs volume, in bytes: mkfs.xfs refuses 300 MiB.
const MinXFSSize = 320 << 20

// MinExt4Size is the smallest ext4 volume, in bytes: below it mkfs.ext4 finds no room.
const MinExt4Size = 1 << 20

// MaxVolumeSize is the largest volume, in bytes: the largest file of an ext4 pool.
const MaxVolumeSize = 16<<40 - VolumeSizeUnit

// VolumeSizeUnit is what every volume size is a multiple of, in bytes.
const VolumeSizeUnit = 4096

// operationDeadline is when an operator should look at an operation.
const operationDeadline = 10 * time.Minute

// maxTextBytes bounds what hosts and operators may add to a record as text.
const maxTextBytes = 512

// maxNameBytes is CSI's limit for names.
const maxNameBytes = 128

// maxTerms and maxSegments bound a topology requirement.
const (
	maxTerms    = 256
	maxSegments = 32
)

// maxMembers bounds the volumes of one group snapshot: all are frozen at once.
const maxMembers = 64

// maxPathBytes is the limit of the operating system for a path.
const maxPathBytes = 4096

// maxFingerprintBytes is the length of the longest fingerprint in use, twice.
const maxFingerprintBytes = 64

// MaxReplicas is how many replicas a volume can have: DRBD 8.4 holds two.
const MaxReplicas = 2

// firstMinor and firstPort are of the first replicated volume; each next one takes the
// lowest minor that is free, and a port that is free on its hosts.
const (
	firstMinor = 100
	firstPort  = 7800
)

// publicKeyLen is the length in bytes of a host's public key (X25519).
const publicKeyLen = 32

// maxIDBytes is CSI's limit for a node id, and ours for other identities.
const maxIDBytes = 256
