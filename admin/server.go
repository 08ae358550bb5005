package admin

import (
	"context"
	"io"
	"log/slog"
	"time"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Cluster is what the API needs of its controller's Raft member.
type Cluster interface {
	// Propose returns when the command is applied; a rejection is an error of type *fsm.Rejection.
	Propose(ctx context.Context, cmd *fsmpb.Command) (*fsmpb.Outcome, error)
	// Read is linearizable; it returns the index at which the state was read.
	Read(ctx context.Context, fn func(*fsm.State) error) (uint64, error)
	// View reads this member's own state, which may lag behind.
	View(fn func(*fsm.State) error) error
	// Fork returns a copy of this member's own state.
	Fork() *fsm.State
	// Members requests the status of every member of the configuration, this one included, with the
	// hash of its state at an index. Members that do not answer are included, with Err set.
	Members(ctx context.Context, hashAt uint64) []Member
	// History yields journalled commands with an index in [from, to] (0: no bound). first is the lowest
	// index in this member's journal.
	History(from, to uint64, fn func(Entry) bool) (first uint64, err error)
	// StoredDump writes the newest Raft snapshot that this member stores at or below an index, else the oldest, and
	// returns its index: 0, and nothing is written, where it stores none.
	StoredDump(below uint64, w io.Writer) (index uint64, err error)
}

// Membership changes the Raft configuration.
type Membership interface {
	// StatusAt requests the status of the controller that listens at an address.
	StatusAt(ctx context.Context, addr string) (PeerStatus, error)
	// Add makes the controller at an address a member, under this id.
	Add(ctx context.Context, memberID, addr string) error
	// Remove removes a member. A removal that would be unsafe is rejected with a *fsm.Rejection.
	Remove(ctx context.Context, memberID string) error
	// Demote makes a voter that is recorded as a non-voter one. One that would be unsafe is rejected with a *fsm.Rejection.
	Demote(ctx context.Context, memberID string) error
	// Transfer hands leadership to a voter, and returns when it leads. A *fsm.Rejection says why it cannot.
	Transfer(ctx context.Context, memberID string) error
}

// PeerStatus is the status of the controller that listens at an address.
type PeerStatus struct {
	Name, MemberID, ClusterID string
	FeatureLevel              uint32
	Detail                    string // why it is not ready
}

// Hosts sends queries to hosts, through whichever member has their session.
type Hosts interface {
	// Inventory returns what a host found below its pools and in its kernel. The error says why
	// there is no answer.
	Inventory(ctx context.Context, node fsm.NodeID) (Inventory, error)
	// Held returns what a host keeps of a lost log. The error says why there is no answer.
	Held(ctx context.Context, node fsm.NodeID) (Held, error)
	// Candidates returns what a host has that could be imported. The error says why there is no answer.
	Candidates(ctx context.Context, node fsm.NodeID) ([]*fsmpb.ImportCandidate, error)
	// HeaderBackup returns what a host has a backup of, of a volume's LUKS header.
	HeaderBackup(ctx context.Context, node fsm.NodeID, volume fsm.VolumeID) (HeaderBackup, error)
}

// Held is what a host keeps for the day on which the log is lost.
type Held struct {
	// Volumes is what it has of each volume, and what the log said last of it.
	Volumes []*fsmpb.HeldVolume
	// Snapshots are the same of each snapshot.
	Snapshots []*fsmpb.HeldSnapshot
	// Revocations are those that a lost log had, and no later one was seen to know; without voters.
	Revocations []*fsmpb.RevokeIdentity
}

// Member is the status of one member, or the reason why it did not answer (Err).
type Member struct {
	Name, MemberID, Role string
	Address              string // address of its Raft listener
	APIAddress           string // that hosts dial; empty: it does not say
	Voter                bool
	Self                 bool // it is this controller
	Term, Applied        uint64
	Commit               uint64
	Hash                 []byte
	HashIndex            uint64
	LastIndex, LastTerm  uint64 // of its log, committed or not; zero: a build that does not say
	Version, LogStore    string
	Level                uint32 // the highest feature level that it supports
	Site                 string // that it acts for; empty: it does not say
	Zone                 string // that it runs in; empty: it does not say
	EnrollAddr           string // of its enrolment listener; empty: it has none
	Trouble              string // why it is not ready; empty: it is
	// DiskFree is that of the disk with its data folder, in bytes, and SlowestSync its longest durable write of the last
	// minute; 0: it does not say.
	DiskFree    int64
	SlowestSync time.Duration
	// ClockAhead is how far its clock is ahead of this member's, known to ClockWithin.
	ClockKnown              bool
	ClockAhead, ClockWithin time.Duration
	Certificates            []Certificate // its own first, then those of the peers that are connected to it
	Err                     error
}

// Certificate is what a controller saw of one.
type Certificate struct {
	Role, Name, Serial, Issuer string
	Issued, NotAfter           time.Time
}

// Entry is one applied command. An entry without a command marks a gap in the journal.
type Entry struct {
	Index, Term uint64
	Command     *fsmpb.Command
	Outcome     *fsmpb.Outcome
	// GapTo is the last index of a gap that begins at Index; GapReason says why it is missing.
	GapTo     uint64
	GapReason string
	// Chain is the state's link of the entry; empty: it has none.
	Chain []byte
}

// Inventory is what a host found.
type Inventory struct {
	Items []Item
	// Encryption: all mappings and copies of LUKS headers are among the items. Without it, as of a host of an older
	// build, nothing is known of them.
	Encryption bool
}

// Item is one thing found on a host; kinds are "image", "unfinished", "loop",
// "mount", "snapshot", "resource", "mapping" and "header_backup".
type Item struct {
	Kind     string
	ID       fsm.VolumeID
	Snapshot fsm.SnapshotID // set instead of ID for a snapshot, complete or not
	Path     string
	// HeaderRead: the item's LUKS header was read, and HeaderUUID is its UUID; empty: there is none.
	HeaderRead bool
	HeaderUUID string
	// WrongDevice is the device below a mapping where that is not the volume's.
	WrongDevice string
}

// PoolState is what a host last measured of one of its pools.
type PoolState struct {
	Free, Capacity int64 // bytes
	Absent         bool  // not mounted, or without its id (S12)
	Copies         bool  // the pool shares no blocks: a snapshot or a clone copies all of them
	Detail         string
}

// Options configures a server.
type Options struct {
	Cluster    Cluster
	Membership Membership
	Hosts      Hosts
	// HostChecks has hosts look at themselves for Doctor; nil: nothing is known of them.
	HostChecks HostChecks
	// Now is the time; nil: the machine's.
	Now func() time.Time
	// Pools returns what hosts measured of each pool, as far as they answered; nil: nothing is known.
	Pools func(context.Context) map[fsm.PoolID]PoolState
	// AttachFacts adds the current measurements of pools to a command, as the leader does for a
	// proposal. A member that does not lead has none, and its plans use the state alone, as with
	// nil: the leader may then reject a step of theirs.
	AttachFacts func(*fsmpb.Command)
	// VolumeCalls makes the CSI calls of changes of volumes; nil: there are none.
	VolumeCalls *VolumeCalls
	// TakeBackup writes a backup file. What it wrote is none unless the error is nil.
	TakeBackup func(context.Context, BackupRequest, io.Writer) error
	// Name is this controller's name.
	Name string
	// Actor returns the verified identity of a call's peer, in the form of a command's actor.
	Actor func(context.Context) (string, error)
	// CallerSerial returns the serial number of the certificate of a call's peer, in hex; nil: it is not known.
	CallerSerial func(context.Context) string
	// TokenAuthority checks that a certificate can have the role and the name, and returns the SHA-256 of the public key of the
	// cluster's CA with the cluster's name in certificates; nil: no tokens are created. Its error is a gRPC status error.
	TokenAuthority func(role, name string) (pin []byte, cluster string, err error)
	// Error converts an error of the cluster to a gRPC status error.
	Error func(error) error
	// Audited is called with the result of each audit that ended; nil: nobody wants to know.
	Audited func(*adminpb.AuditResponse)
	// AuditPause is the time between two rounds of an audit; 0 means 250 ms.
	AuditPause time.Duration
	// Logger gets events that operators should know; nil discards them.
	Logger *slog.Logger
}

// Server serves the operators' API.
type Server struct {
	adminpb.UnimplementedAdminServer
	Options
	plans, adminPlans chan struct{} // semaphores: one element for each plan that is being made
	verifying         chan struct{} // one element while the journal is verified
}

// NewServer creates a server.
func NewServer(o Options) *Server {
	if o.AuditPause == 0 {
		o.AuditPause = 250 * time.Millisecond
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Audited == nil {
		o.Audited = func(*adminpb.AuditResponse) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Server{Options: o, plans: make(chan struct{}, maxPlans), adminPlans: make(chan struct{}, maxPlans), verifying: make(chan struct{}, 1)}
}

// read does a linearizable read.
func (s *Server) read(ctx context.Context, fn func(*fsm.State) error) error {
	_, err := s.Cluster.Read(ctx, fn)
	return s.Error(err)
}

// fork returns a copy of the state that has every entry acknowledged before the call. With stale it is
// a copy of this member's own state, which needs no quorum. A copy may be read for long: it holds no
// lock.
func (s *Server) fork(ctx context.Context, stale bool) (*fsm.State, error) {
	if !stale {
		if err := s.read(ctx, func(*fsm.State) error { return nil }); err != nil {
			return nil, err
		}
	}
	return s.Cluster.Fork(), nil
}
