package fsm

import "github.com/holdfast-storage/holdfast/fsm/fsmpb"

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
	// Addresses are the host's own, sorted, besides that of its replication.
	Addresses []string
	Fence     NodeFence
	// Maintenance is the index at which the host was recorded to go down on purpose; 0: it was not, or was booted since.
	Maintenance uint64
	// OutOfService is the index at which the node was taken out of service; 0: it was not. It fences each host that has the name.
	OutOfService uint64
}

// NodeFence says that the host is fenced (S57), and how far it is on its way back (S59). Zero: it is not.
type NodeFence struct {
	Since   uint64 // the entry that fenced it
	Lifted  uint64 // the entry that ended the last of its fences; 0: one stands
	Session uint64 // the registration after that; 0: none yet
}

// IsFenced tells whether the host gets no right to anything until it served its way back.
func (n *Node) IsFenced() bool { return n.Fence.Since != 0 }

// canBeAsked: a member has the host's session, and it is not fenced.
func (n *Node) canBeAsked() bool { return n.State == NodeReachable && !n.IsFenced() }

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

func hashNode(e *encoder, n *Node) sum256 {
	e.begin(kindNode)
	e.str(string(n.ID))
	e.str(string(n.Host))
	e.str(n.Boot)
	e.u64(uint64(len(n.Pools)))
	for i := range n.Pools {
		hashPool(e, &n.Pools[i])
	}
	hashLabels(e, n.Labels)
	e.str(n.Site)
	e.u64(uint64(n.MaxVolumes))
	e.str(n.Version)
	e.u64(uint64(n.FeatureLevel))
	e.u64(uint64(n.State))
	e.u64(n.Incarnation)
	e.epoch(n.Registered)
	hashNodeReplication(e, n)
	return e.sum()
}

func hashPool(e *encoder, p *Pool) {
	e.str(string(p.ID))
	e.str(p.Backend)
	e.i64(p.Capacity)
	e.u64(uint64(p.OvercommitPercent))
	e.i64(p.MinFree)
}

func hashLabels(e *encoder, labels []Label) {
	e.u64(uint64(len(labels)))
	for _, l := range labels {
		e.str(l.Key)
		e.str(l.Value)
	}
}

func nodeRecord(n *Node) *fsmpb.NodeRecord {
	r := &fsmpb.NodeRecord{
		NodeId: string(n.ID), HostId: string(n.Host), BootId: n.Boot, Site: n.Site, MaxVolumes: n.MaxVolumes,
		Version: n.Version, FeatureLevel: n.FeatureLevel, State: uint32(n.State), Incarnation: n.Incarnation, Registered: n.Registered.Proto(),
		Replication: n.Replication.proto(), Cordoned: n.Cordoned,
		NoNewReplicas: n.NoNewReplicas,
		Addresses:     n.Addresses, FenceSince: n.Fence.Since, FenceLifted: n.Fence.Lifted, FenceSession: n.Fence.Session,
		Maintenance: n.Maintenance, OutOfService: n.OutOfService,
	}
	for _, p := range n.Pools {
		r.Pools = append(r.Pools, &fsmpb.Pool{
			PoolId: string(p.ID), Backend: p.Backend, CapacityBytes: p.Capacity, OvercommitPercent: p.OvercommitPercent, MinFreeBytes: p.MinFree,
		})
	}
	for _, l := range n.Labels {
		r.Labels = append(r.Labels, &fsmpb.Label{Key: l.Key, Value: l.Value})
	}
	return r
}

func (x *dumpDecoder) node(r *fsmpb.NodeRecord) error {
	n := Node{
		ID: NodeID(r.GetNodeId()), Host: HostID(r.GetHostId()), Boot: r.GetBootId(), Site: r.GetSite(), MaxVolumes: r.GetMaxVolumes(),
		Version: r.GetVersion(), FeatureLevel: r.GetFeatureLevel(), Incarnation: r.GetIncarnation(), Registered: EpochFrom(r.GetRegistered()),
		Replication: nodeReplicationFrom(r.GetReplication()), Cordoned: r.GetCordoned(),
		NoNewReplicas: r.GetNoNewReplicas(),
		Addresses:     r.GetAddresses(), Fence: NodeFence{Since: r.GetFenceSince(), Lifted: r.GetFenceLifted(), Session: r.GetFenceSession()},
		Maintenance: r.GetMaintenance(), OutOfService: r.GetOutOfService(),
	}
	if r.GetState() < uint32(NodeReachable) || r.GetState() > uint32(NodeLost) {
		return errForm
	}
	n.State = NodeState(r.GetState())
	for _, p := range r.GetPools() {
		n.Pools = append(n.Pools, Pool{
			ID: PoolID(p.GetPoolId()), Backend: p.GetBackend(), Capacity: p.GetCapacityBytes(),
			OvercommitPercent: p.GetOvercommitPercent(), MinFree: p.GetMinFreeBytes(),
		})
	}
	for _, l := range r.GetLabels() {
		n.Labels = append(n.Labels, Label{Key: l.GetKey(), Value: l.GetValue()})
	}
	x.s.storeNode(n)
	return x.checkOrder(4, string(n.ID))
}

// These precede a field that came after feature level 1 in what is hashed, as those of volumes do.
const (
	fieldNoNewReplicas = iota + 1
	fieldAddresses
	fieldFence
	fieldMaintenance  = 131
	fieldOutOfService = 134
)

func hashNodeReplication(e *encoder, n *Node) {
	if n.Replication == (NodeReplication{}) && !n.Cordoned && len(n.Addresses) == 0 && n.Fence == (NodeFence{}) && n.Maintenance == 0 && n.OutOfService == 0 {
		return
	}
	e.str(n.Replication.Address)
	e.str(n.Replication.PublicKey)
	e.str(n.Replication.Version)
	e.u64(uint64(n.Replication.MaxReplicas))
	e.bool(n.Cordoned)
	if n.NoNewReplicas {
		e.u64(fieldNoNewReplicas)
	}
	if len(n.Addresses) > 0 {
		e.u64(fieldAddresses)
		e.u64(uint64(len(n.Addresses)))
		for _, a := range n.Addresses {
			e.str(a)
		}
	}
	if n.Fence != (NodeFence{}) {
		e.u64(fieldFence)
		e.u64(n.Fence.Since)
		e.u64(n.Fence.Lifted)
		e.u64(n.Fence.Session)
	}
	if n.Maintenance != 0 {
		e.u64(fieldMaintenance)
		e.u64(n.Maintenance)
	}
	if n.OutOfService != 0 {
		e.u64(fieldOutOfService)
		e.u64(n.OutOfService)
	}
}

func (r NodeReplication) proto() *fsmpb.Replication {
	if r == (NodeReplication{}) {
		return nil
	}
	return &fsmpb.Replication{Address: r.Address, PublicKey: []byte(r.PublicKey), Version: r.Version, MaxReplicas: r.MaxReplicas}
}

func nodeReplicationFrom(r *fsmpb.Replication) NodeReplication {
	return NodeReplication{Address: r.GetAddress(), PublicKey: string(r.GetPublicKey()), Version: r.GetVersion(), MaxReplicas: r.GetMaxReplicas()}
}
