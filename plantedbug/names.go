package plantedbug

// Environment is the variable that names the bug of a process.
const Environment = "HOLDFAST_PLANTED_BUG"

// Bug is one planted bug.
type Bug string

// Bugs of decisions, and of what members agree on.
const (
	RetryNotIdempotent  Bug = "retry-not-idempotent"  // a repeated command is decided again
	PublishNotExclusive Bug = "publish-not-exclusive" // a volume that is published to one node is published to another
	EpochUnchecked      Bug = "epoch-unchecked"       // a report counts under any epoch
	EarlierBootAccepted Bug = "earlier-boot-accepted" // commands of an earlier boot count
	DeleteBeforeGone    Bug = "delete-before-gone"    // a deleted volume is forgotten before its hosts removed it
	DumpWithoutTable    Bug = "dump-without-table"    // a dump lacks the groups of snapshots
	MapOrderInApply     Bug = "map-order-in-apply"    // members place one volume differently
	ReserveLeaked       Bug = "reserve-leaked"        // what a removed volume reserved stays reserved
	ExpandUnreserved    Bug = "expand-unreserved"     // a volume grows beyond what its pool has
	DoublePlacement     Bug = "double-placement"      // both replicas are placed on one host
	VolumeShrinks       Bug = "volume-shrinks"        // an expansion to a smaller size is done
	EarlierGeneration   Bug = "earlier-generation"    // what was observed in an earlier generation counts
	ConsistentPromoted  Bug = "consistent-promoted"   // a disk that may lack writes is promoted without its peer
	LoserGoesOn         Bug = "loser-goes-on"         // a host without the grant is told to go on without its peer
	DisklessOutdates    Bug = "diskless-outdates"     // a primary without its disk outdates the only good copy
	OutdatedForgotten   Bug = "outdated-forgotten"    // after a boot an outdated replica counts as up to date
	TakeoverNotAwaited  Bug = "takeover-not-awaited"  // a host is promoted before the former primary ended
	FreezeNotAwaited    Bug = "freeze-not-awaited"    // a group's snapshots begin when its first member is frozen
	ChangeUnannounced   Bug = "change-unannounced"    // the hosts of a volume are not told of its change
	StaleFollowerRead   Bug = "stale-follower-read"   // a member answers reads from what it has applied
	AckBeforeCommit     Bug = "ack-before-commit"     // a command whose leader was deposed is acknowledged
	WatchSkips          Bug = "watch-skips"           // of several changes at once a watch lacks the first
	EntryAfterSnapshot  Bug = "entry-after-snapshot"  // the entry after an installed Raft snapshot is not applied
	FsyncLeftOut        Bug = "fsync-left-out"        // the log is not synced
	TermNotPersisted    Bug = "term-not-persisted"    // Raft's term is kept in memory only
	FenceKeepsGrants    Bug = "fence-keeps-grants"    // a fenced host keeps what it was granted
	FencedHostServes    Bug = "fenced-host-serves"    // a volume is published to a fenced host
	ReclaimInUse        Bug = "reclaim-in-use"        // a volume that is published is mounted for a reclaim
	FaultInApply        Bug = "fault-in-apply"        // every member faults on a volume named planted-fault
)

// Bugs of replication between sites.
const (
	PublishedAtSecondary  Bug = "published-at-secondary"   // S38: a volume is published at the site without the role
	RoleIndexUnchecked    Bug = "role-index-unchecked"     // S39: a call that was decided before the role moved counts
	ForceOfferedTooEarly  Bug = "force-offered-too-early"  // S40: a promotion asks for force while the other site's data are coming
	HealthyWhileBehind    Bug = "healthy-while-behind"     // S40: a replication is healthy while a replica lacks writes
	OustedSitePromoted    Bug = "ousted-site-promoted"     // S41: a site that lost the role is promoted without having demoted
	MoveNotAwaited        Bug = "move-not-awaited"         // S42: the role moves before the former primary is cut off
	PartOfContentPromoted Bug = "part-of-content-promoted" // S43: a replica that has a part of the content is promoted by force
	LivePrimaryForced     Bug = "live-primary-forced"      // S44: the role is taken from a site that can be asked
	GroupPartlyNewer      Bug = "group-partly-newer"       // S44: a forced promotion makes a group of two instants
	DemotedInUse          Bug = "demoted-in-use"           // S46: a site is demoted while a volume is published there
	OtherSiteStaysCurrent Bug = "other-site-stays-current" // S47: what a forced promotion gave up counts as up to date
	ApartConnects         Bug = "apart-connects"           // S48: what was given up connects without anybody's decision
	ApartWithoutForce     Bug = "apart-without-force"      // S48: what was given up is discarded without force
	NotKeptBeforeSync     Bug = "not-kept-before-sync"     // S50: a whole replica is overwritten without a copy
	ReadyTooEarly         Bug = "ready-too-early"          // S51: a resynchronisation is ready before both sites are equal
	MemberGoesOnAlone     Bug = "member-goes-on-alone"     // S52: one member of a group goes on while others are not cut
	GroupEnabledInPart    Bug = "group-enabled-in-part"    // S53: a group is replicated without the members that cannot be
	ReplicaAtOtherSite    Bug = "replica-at-other-site"    // S54: a replica is replaced at the site of the other one
)

// Bugs of hosts: what they do with data.
const (
	OldKeyKept          Bug = "old-key-kept"          // a rotation ends with the key before in its slot
	HeaderLeft          Bug = "header-left"           // a removed volume's header is not overwritten
	FormatOnDoubt       Bug = "format-on-doubt"       // what cannot be read, or is empty, is formatted
	FormattedBeforeMade Bug = "formatted-before-made" // the filesystem is reported as made before it is
	RemoveOnAbsence     Bug = "remove-on-absence"     // a device that no desired state names is removed
	TornClone           Bug = "torn-clone"            // a copy that was cut off counts as whole
	TornSnapshot        Bug = "torn-snapshot"         // a snapshot that was cut off counts as whole
	GroupTwoInstants    Bug = "group-two-instants"    // the members of a group are not frozen
	FreezeWithoutThaw   Bug = "freeze-without-thaw"   // a filesystem stays frozen after its snapshot
	UnstageForgotten    Bug = "unstage-forgotten"     // a volume is reported unstaged and is still mounted
	OldGrantUsed        Bug = "old-grant-used"        // a grant is used after its session ended
	OutboxLost          Bug = "outbox-lost"           // teardowns that were not acknowledged are forgotten with the process
	RecordUnsynced      Bug = "record-unsynced"       // a host's records are not synced
	SequenceReused      Bug = "sequence-reused"       // a host's numbers begin again with each process
	WakeupLost          Bug = "wakeup-lost"           // new desired state wakes nobody
	DuplicateLoopDevice Bug = "duplicate-loop-device" // an image gets another loop device each time
	VerdictBeforeCommit Bug = "verdict-before-commit" // the kernel may go on before the log has outdated the peer
	ResumeBeforeVerdict Bug = "resume-before-verdict" // suspended I/O goes on without any verdict
	BitmapTrusted       Bug = "bitmap-trusted"        // a failed disk is resynchronised by a bitmap that does not know
	ResyncWrongWay      Bug = "resync-wrong-way"      // the side with every write discards what it has
	InvalidateGoodSide  Bug = "invalidate-good-side"  // the replica with the source's content is overwritten
	DiscardUnkept       Bug = "copy-not-kept"         // an outdated replica's writes are discarded without a copy
	LoserResumed        Bug = "loser-resumed"         // the I/O of a loser succeeds instead of failing
)
