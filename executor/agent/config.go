package agent

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/records"
	"github.com/holdfast-storage/holdfast/fsm"
)

// Config is what an Agent is made from.
type Config struct {
	// Node is the host's id as a node of the cluster.
	Node fsm.NodeID
	// Host is the host's identity and data directory, from records.OpenHost.
	Host *records.Host
	// Pools are the host's, each with its own id.
	Pools []executor.Backend
	// Mounter mounts on this host.
	Mounter executor.Mounter
	// Freezer, FilesystemTools and Throttle may be nil: without them no snapshot is taken of what is
	// mounted, filesystems keep their sizes and UUIDs, and limits are refused. Snapshots are
	// offered by pools whose Backend is a SnapshotBackend.
	Freezer         executor.Freezer
	FilesystemTools executor.FilesystemTools
	Throttle        executor.Throttle
	// Encryptor encrypts volumes; nil: this host cannot.
	Encryptor executor.Encryptor
	// MaxFreeze bounds how long a filesystem is frozen for a snapshot (S19); 0: 10 s.
	MaxFreeze time.Duration
	// HealthInterval is how often the volumes' health is checked; 0: 10 s.
	HealthInterval time.Duration
	// Replicator keeps replicated volumes; nil: this host holds none. With it go the address that
	// peers replicate to, the public key of this host, and the function that derives a
	// resource's secret from a peer's public key.
	Replicator         executor.Replicator
	ReplicationAddress string
	PublicKey          []byte
	DeriveSecret       func(peerPublic []byte, id fsm.VolumeID) (string, error)
	// VerifyInterval is how often a volume's replicas are compared; 0: never.
	VerifyInterval time.Duration
	// SelfFence restarts the host when an outdated former primary could not be torn down within
	// SelfFenceAfter (0: a minute). Nil: its I/O stays suspended, and that is reported (S9).
	SelfFence func()
	// HandlerGrace is how long the kernel's fence-peer handler may take to end suspended I/O before
	// this process does so; 0: 3 s.
	HandlerGrace time.Duration
	// Reached tells whether this host has a session with a controller now; nil: it always has. Primaries that are to be
	// frozen when they are isolated are, once there was none for NodeTimeout; 0: 10 s (S45).
	Reached        func() bool
	NodeTimeout    time.Duration
	SelfFenceAfter time.Duration
	// Proposer proposes commands; nil for an Agent that only cleans.
	Proposer executor.Proposer
	// Faults is called at every point in FaultPoints; nil in production.
	Faults Faults
	// Logger and Metrics may be nil.
	Logger  *slog.Logger
	Metrics prometheus.Registerer
	// Workers bounds how many volumes the background works on at once; 0: 16.
	Workers int
	// CatchUpTimeout is how long a call waits for the session to catch up with the log; 0: 5 s.
	CatchUpTimeout time.Duration
	// MapTimeout is how long one page of a block map may take; 0: 20 s.
	MapTimeout time.Duration
	// ResyncInterval is how often volumes are reconciled without an event; 0: 30 s.
	ResyncInterval time.Duration

	// What the host registers with, beside its identity.
	Labels []fsm.Label // without the topology key itself
	Site   string
	// Addresses are the IP addresses by which a fence finds it, besides that of its replication, at each
	// registration; it may be nil.
	Addresses    func() []string
	MaxVolumes   uint32 // 0: unlimited
	Version      string
	FeatureLevel uint32
	// OvercommitPercent is for pools of a kind that OvercommitPercents does not name.
	OvercommitPercent  uint32
	OvercommitPercents map[string]uint32 // by a backend's Kind
	MinFree            int64             // bytes
}

const (
	defaultWorkers   = 16
	defaultResync    = 30 * time.Second
	defaultCatchUp   = 5 * time.Second
	defaultMaxFreeze = 10 * time.Second
	defaultHealth    = 10 * time.Second
	defaultGrace     = 3 * time.Second
	defaultTimeout   = 10 * time.Second
)
