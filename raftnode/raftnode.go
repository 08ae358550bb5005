// Package raftnode is one Raft member: it proposes commands on whichever member
// it is asked, reads consistently, and tells watchers what changed.
package raftnode

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
	"github.com/holdfast-storage/holdfast/raftnode/pki"
	"github.com/holdfast-storage/holdfast/raftnode/raftpb"
)

// The three ways in which Propose fails. Outside all are UNAVAILABLE.
var (
	// ErrNotLeader: no leader took the command; nothing happened.
	ErrNotLeader = errors.New("no leader took the command")
	// ErrOutcomeUnknown: it may or may not have been applied; the same command
	// may be proposed again with the same request id.
	ErrOutcomeUnknown = errors.New("the outcome of the command is not known")
	// ErrShutdown: this member is stopping.
	ErrShutdown = errors.New("this member is shutting down")
	// ErrDiskFull: the Raft folder is nearly full, so mutations are refused (S28).
	ErrDiskFull = errors.New("the Raft folder's disk is full")
)

// IsUnavailable tells whether an error of this package means that the caller
// should try again, here or at another member.
func IsUnavailable(err error) bool { panic("raftnode: to be written") }

// Config is what a member needs. Zero durations and sizes mean the documented defaults.
type Config struct {
	Dir      string // the data folder, 0700
	Name     string // the controller's name, as in cluster.json
	LogStore string // "wal" or "boltdb"
	Version  string
	APIAddr  string // told to peers and status

	Listener    net.Listener // of Raft; TCP
	Advertise   string       // the address that peers dial; the listener's when empty
	Credentials *pki.Credentials

	Bootstrap bool     // make a new cluster when the folder is empty
	Join      []string // Raft addresses of members to join through when the folder is empty

	// Facts attaches what was measured to a command, on the leader, before it is
	// appended (S25). It must not block.
	Facts func(*fsmpb.Command)
	// Services registers further controller-to-controller services on the Raft listener.
	Services func(grpc.ServiceRegistrar)

	HeartbeatTimeout, ElectionTimeout, LeaseTimeout time.Duration // 500 ms, 500 ms, 250 ms
	SnapshotThreshold, TrailingLogs                 uint64        // 8192, 2x the threshold
	SnapshotInterval                                time.Duration
	CheckpointEvery                                 uint64        // 256 entries (S23)
	DiskHang                                        time.Duration // 5 s: an I/O outstanding for longer ends the process
	DiskReserve, DiskGuard                          int64         // 64 MiB; min(10 %, 256 MiB)
	JournalRetain                                   int64         // bytes of journal kept

	Logger  *slog.Logger
	Metrics prometheus.Registerer
	// Exit ends the process with a code; os.Exit by default. Tests replace it.
	Exit func(code int)
}

// Member is one running Raft member.
type Member struct{}

// Open checks the data folder, sanitises the log and starts the member. It
// refuses to start on any doubt, with an error that names the file and the remedy.
func Open(ctx context.Context, cfg Config) (*Member, error) { panic("raftnode: to be written") }

// Close transfers leadership if it has it, and stops.
func (m *Member) Close() error { panic("raftnode: to be written") }

// Propose has a command applied, wherever the leader is, and returns once it is
// applied on this member too. It fills request_id and proposed_index when empty
// and retries an unknown outcome with the same ones until ctx ends. A rejection
// comes back as error *fsm.Rejection beside the outcome.
func (m *Member) Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	panic("raftnode: to be written")
}

// Read calls fn with a state that holds everything acknowledged before the call.
// fn must not keep the state. It returns the index that was read at.
func (m *Member) Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error) {
	panic("raftnode: to be written")
}

// View calls fn with this member's applied state, which may lag.
func (m *Member) View(fn func(*fsm.State) error) error { panic("raftnode: to be written") }

// Fork is a copy of this member's applied state, for long work.
func (m *Member) Fork() *fsm.State { panic("raftnode: to be written") }

// Interest says which touches a watch wants.
type Interest struct {
	Volume fsm.VolumeID // this volume only
	Node   fsm.NodeID   // this node's volumes and its own record
	All    bool
}

// Watch wakes on touches of interest until it is closed.
type Watch struct {
	// C gets a value when there is something to Take; never blocks the member.
	C <-chan struct{}
}

// Watch begins a watch. All that is touched from then on, and everything after a
// restore, comes out of Take.
func (m *Member) Watch(i Interest) *Watch { panic("raftnode: to be written") }

// Take returns and forgets the volumes touched; all is true when everything may
// have changed (a restore, or too many touches to list).
func (w *Watch) Take() (volumes []fsm.VolumeID, all bool) { panic("raftnode: to be written") }

// Close ends the watch.
func (w *Watch) Close() { panic("raftnode: to be written") }

// WaitIndex returns when this member has applied the index.
func (m *Member) WaitIndex(ctx context.Context, index uint64) error { panic("raftnode: to be written") }

// Status is what this member knows of itself; hashAt as in raftpb.StatusRequest.
func (m *Member) Status(ctx context.Context, hashAt uint64) (*raftpb.StatusResponse, error) {
	panic("raftnode: to be written")
}

// Peer is one member of the configuration.
type Peer struct {
	ID    string // Raft's
	Addr  string
	Voter bool
	Self  bool
}

// Peers lists the members of the latest configuration.
func (m *Member) Peers() []Peer { panic("raftnode: to be written") }

// Dial is a connection to a peer's Raft listener, shared and kept open.
func (m *Member) Dial(peer string) (*grpc.ClientConn, error) { panic("raftnode: to be written") }

// Leadership tells whether this member leads, and gets a value at each change.
func (m *Member) Leadership() (leading bool, term uint64, changed <-chan struct{}) {
	panic("raftnode: to be written")
}

// TransferLeadership gives leadership to another voter; no-op on others.
func (m *Member) TransferLeadership(ctx context.Context) error { panic("raftnode: to be written") }

// RemovePeer removes a member from the configuration, by Raft's id.
func (m *Member) RemovePeer(ctx context.Context, id string) error { panic("raftnode: to be written") }

// Entry is one applied command, as the journal holds it.
type Entry struct {
	Index   uint64
	Term    uint64
	Command *fsmpb.Command
	Outcome *fsmpb.Outcome
}

// History yields journalled commands with an index in [from, to] (0: no bound)
// until fn returns false. first is the lowest index that this member knows, gaps
// are marked by entries without a command.
func (m *Member) History(from, to uint64, fn func(Entry) bool) (first uint64, err error) {
	panic("raftnode: to be written")
}

// Ready is nil when this member serves: it knows a leader, it has applied what
// was committed when it started, its disk is not full, it is not quarantined.
func (m *Member) Ready() error { panic("raftnode: to be written") }
