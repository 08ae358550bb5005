package fsm

// Node is one storage host.
type Node struct {
	ID           NodeID
	Host         HostID
	Boot         string
	Pools        []Pool // sorted by id
	Labels       []Label
	Site         string
	MaxVolumes   uint32 // publications at once; 0: unlimited
	Version      string
	FeatureLevel uint32
	State        NodeState
	// Incarnation is the one the host may act for. When it is not the cluster's
	// the host is in adoption mode (S1).
	Incarnation uint64
	Registered  Epoch
	// Replication is zero for a host that holds no replicas of replicated volumes.
	Replication NodeReplication
	// NoNewReplicas: the host registered without replication. What it registered before
	// stays in force for its peers and for the replicas that it has; it gets no others.
	NoNewReplicas bool
	// Cordoned: an operator wants no new volumes or replicas here.
	Cordoned bool
}

// NodeReplication is what a host can do for replicated volumes.
type NodeReplication struct {
	Address     string // IP, to which its peers replicate
	PublicKey   string // X25519, 32 bytes
	Version     string // of the kernel's module
	MaxReplicas uint32 // that the module can hold of one volume
}

// NodeState is what is recorded of a host's session.
type NodeState uint8

const (
	// NodeReachable: a member has its session.
	NodeReachable NodeState = iota + 1
	// NodeUnreachable: no member had its session for the node timeout.
	NodeUnreachable
	// NodeLost: an operator attested that the host and its data are gone.
	NodeLost
)

// Pool is where a host keeps devices.
type Pool struct {
	ID                PoolID
	Backend           string
	Capacity          int64 // bytes
	OvercommitPercent uint32
	MinFree           int64 // bytes
}
