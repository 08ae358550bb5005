package executor

import (
	"github.com/holdfast-storage/holdfast/fsm"
)

// stepKind names one thing that is done to a volume. It is the metric's label and
// the operation's step in the log.
type stepKind string

const (
	stepNone            stepKind = ""
	stepRefuse          stepKind = "refuse"
	stepCreate          stepKind = "create"
	stepCopy            stepKind = "create-from"
	stepGrow            stepKind = "grow"
	stepIdentity        stepKind = "identity"
	stepGrowFS          stepKind = "grow-filesystem"
	stepThrottle        stepKind = "throttle"
	stepAttach          stepKind = "attach"
	stepProbe           stepKind = "probe"
	stepRecord          stepKind = "record"
	stepFormat          stepKind = "mkfs"
	stepReportFormatted stepKind = "report-formatted"
	stepMount           stepKind = "mount"
	stepBind            stepKind = "bind"
	stepUnbind          stepKind = "unbind"
	stepUnmount         stepKind = "unmount"
	stepDetach          stepKind = "detach"
	stepRemove          stepKind = "remove"

	// Of snapshots.
	stepFreeze         stepKind = "freeze"
	stepCut            stepKind = "cut"
	stepThaw           stepKind = "thaw"
	stepRemoveSnapshot stepKind = "remove-snapshot"
	stepForget         stepKind = "forget-snapshot" // its record is needed no more
	stepMiss           stepKind = "miss-snapshot"   // it is recorded that its file is missing
)

// step is one step, with the path it is about.
type step struct {
	kind    stepKind
	path    string
	refusal *fsm.Rejection // of stepRefuse: nothing can be done, and why
}

func refuse(reason fsm.Reason, format string, args ...any) step {
	return step{kind: stepRefuse, refusal: fsm.Reject(reason, format, args...)}
}

// grant is the right to bring a volume up that one call read from the quorum (S2).
// It is never on disk, and worth nothing in another session.
type grant struct {
	session    uint64
	epoch      fsm.Epoch
	path       string // to stage at
	block      bool
	readOnly   bool
	fs         Filesystem
	formatting bool // the state is `formatting`: mkfs is owed, and may be repeated (S15)
	// cloned: the filesystem is a source's; fs.UUID is to be its own, and the log is to
	// be told so before the first mount.
	cloned bool
}

// desired is what a volume should be on this host. Its parts are asked for one at
// a time: a call brings up or takes down, the background creates and removes.
type desired struct {
	volume fsm.VolumeID
	verb   fsm.Goal // zero: make and remove nothing
	size   int64    // bytes
	down   bool     // nothing of it may be up
	drop   []string // targets that may not be bound
	grant  *grant   // bring it up
	source fsm.Source
	// sourceSize is how many bytes of content a source that is a snapshot has; 0: not known.
	sourceSize int64
	// growing: an operation may be an expansion, so a device below size is to grow.
	growing bool
	// limits are to be in force on the device; nil: not said.
	limits *fsm.Limits
	// What the host can do.
	grows, throttles bool
	bind             *target // bind it, with the grant
}

// observed is what a volume is on this host.
type observed struct {
	Device
	replica *replicaHave // of a replicated volume
	staged  bool         // its filesystem is mounted at the staging path
	// stagedAt is that path as the kernel names it.
	stagedAt string
	bound    []string // its targets that are mounted
	strange  []string // where else it is mounted
	content  Content
	// recorded: the record on disk names what the grant brings up; marked: it says
	// that this host began to make the grant's filesystem (S15).
	recorded, marked bool
	// targetRecorded: the record on disk names the target to be bound.
	targetRecorded bool
	// older: what is recorded belongs to an earlier publication than the grant's (S3).
	older bool
	// formatted: mkfs ended under this grant.
	formatted bool
	known     int64       // the size that the record says the image had
	grownTo   int64       // the device's size for which the filesystem was made or grown
	limits    *fsm.Limits // in force; nil: not known
	limited   bool        // the record says that some may be
	copying   bool        // the record says that the image may be torn
}

// up tells whether anything of the volume is given out.
func (o *observed) up() bool {
	return o.staged || len(o.bound) > 0 || len(o.strange) > 0 || o.Attached()
}

// mounted tells whether it is, anywhere.
func (o *observed) mounted() bool { return o.staged || len(o.bound) > 0 || len(o.strange) > 0 }

// frozen tells whether somebody may still wait for a write to it.
func (o *observed) frozen() bool { return o.replica != nil && o.replica.Suspended }

// deviceSize is the size of the block device in bytes: that of a replicated volume
// follows when the devices below both replicas are as large.
func (o *observed) deviceSize() int64 {
	if o.replica != nil && o.replica.Primary && o.replica.Mirror.Size > 0 {
		return o.replica.Mirror.Size
	}
	return o.Size
}

// next picks the one step that brings have closer to want. It is pure: every rule
// about order and safety is here, and is tested as a table.
func next(want *desired, have *observed) step {
	switch {
	case want.down:
		return takeDown(want, have)
	case len(want.drop) > 0:
		return step{kind: stepUnbind, path: want.drop[0]}
	case want.grant != nil && want.bind != nil:
		return bindTarget(want, have)
	case want.grant != nil:
		return bringUp(want, have)
	case want.verb == fsm.GoalRemove:
		return remove(want, have)
	case want.verb == fsm.GoalCreate:
		return create(want, have)
	case have.Absent || !have.Exists:
	case want.mayGrow(have):
		return step{kind: stepGrow}
	case want.growing && have.Size < want.size:
		return refuse(fsm.Precondition, "the image of volume %s has %d bytes, and had %d: it lost its end, and is not grown over", want.volume, have.Size, have.known)
	case want.limits != nil && have.Attached():
		return limit(want, have)
	}
	return step{} // a Ready volume without its device is reported missing, never remade (S14)
}

// takeDown ends what is up, from the targets down. It never ends what it does not
// know: another mount of the volume keeps its device.
func takeDown(want *desired, have *observed) step {
	switch {
	case len(have.bound) > 0:
		return step{kind: stepUnbind, path: have.bound[0]}
	case len(have.strange) > 0:
		return refuse(fsm.Busy, "volume %s is also mounted at %s", want.volume, have.strange[0])
	case have.staged:
		return step{kind: stepUnmount}
	case have.Attached():
		return step{kind: stepDetach}
	}
	return step{}
}

// remove is said by a Deleting record for this host's replica (S14).
func remove(want *desired, have *observed) step {
	switch {
	case have.up():
		return takeDown(want, have)
	case have.Absent: // nothing is known to be gone from an absent pool (S12)
		return refuse(fsm.Unreachable, "the pool of volume %s is absent", want.volume)
	case have.Exists || have.Unfinished:
		return step{kind: stepRemove}
	}
	return step{}
}

// create belongs to a Creating volume (S14).
func create(want *desired, have *observed) step {
	switch {
	case have.Absent:
		return refuse(fsm.Unreachable, "the pool of volume %s is absent", want.volume)
	case have.Exists && have.copying:
		return step{kind: stepRemove} // it was never reported
	case !have.Exists && !want.source.IsZero():
		return step{kind: stepCopy}
	case !have.Exists:
		return step{kind: stepCreate}
	case have.Size != want.size:
		return refuse(fsm.Incompatible, "the image of volume %s has %d bytes, not %d", want.volume, have.Size, want.size)
	}
	return step{}
}

// bringUp gives the volume out where the grant says.
func bringUp(want *desired, have *observed) step {
	switch {
	case have.Absent:
		return refuse(fsm.Precondition, "the pool of volume %s is absent", want.volume)
	case !have.Exists:
		return refuse(fsm.Precondition, "the device of volume %s is missing", want.volume)
	case want.mayGrow(have):
		return step{kind: stepGrow}
	case have.Size < want.size || have.Size < have.known:
		return refuse(fsm.Precondition, "the image of volume %s has %d bytes, not %d", want.volume, have.Size, max(want.size, have.known))
	case have.older && have.up():
		return takeDown(want, have) // a mount of an older epoch goes first (S3)
	case want.grant.block:
		return bringUpRaw(want, have)
	case have.staged && have.recorded:
		return whileStaged(want, have) // the log recorded the format before the first mount
	case !have.Attached():
		return step{kind: stepAttach}
	case !have.content.Read:
		return step{kind: stepProbe}
	case want.grant.formatting:
		return format(want, have)
	case want.grant.cloned:
		return identify(want, have)
	case have.content.Found != want.grant.fs:
		return refuse(fsm.Precondition, "%s of volume %s holds %s, not the %s that was made for it",
			have.Path, want.volume, describe(have.content), want.grant.fs.Type)
	case !have.recorded:
		return step{kind: stepRecord}
	}
	if s := growFilesystem(want, have, growsUnmounted); s.kind != stepNone {
		return s
	}
	if s := limit(want, have); s.kind != stepNone {
		return s
	}
	return step{kind: stepMount}
}

// whileStaged does what is left to do on a mounted filesystem.
func whileStaged(want *desired, have *observed) step {
	if s := limit(want, have); s.kind != stepNone {
		return s
	}
	return growFilesystem(want, have, "xfs")
}

// bringUpRaw: attaching is giving out, so the record comes first.
func bringUpRaw(want *desired, have *observed) step {
	g := want.grant
	switch {
	case !have.recorded:
		return step{kind: stepRecord}
	case !have.Attached(), have.ReadOnly != g.readOnly && len(have.bound) == 0:
		return step{kind: stepAttach}
	}
	return limit(want, have)
}

// format makes the filesystem once in the volume's life, and again only over what
// is known to be this host's own beginning of it: the device was never mounted nor
// given out while the state is `formatting` (S15).
func format(want *desired, have *observed) step {
	ours := have.content.Found == want.grant.fs
	switch {
	case have.formatted:
		return step{kind: stepReportFormatted}
	case !have.content.Empty && !ours && !have.marked:
		return refuse(fsm.Precondition, "%s of volume %s holds %s: no filesystem is made over it", have.Path, want.volume, describe(have.content))
	case !have.recorded || !have.marked:
		return step{kind: stepRecord}
	}
	return step{kind: stepFormat}
}

// bindTarget makes the volume visible at a target path.
func bindTarget(want *desired, have *observed) step {
	switch {
	case !have.recorded || !have.Attached() || !want.grant.block && !have.staged:
		return refuse(fsm.Precondition, "volume %s is not staged at %s", want.volume, want.grant.path)
	case !have.targetRecorded:
		return step{kind: stepRecord}
	case !contains(have.bound, want.bind.Path):
		return step{kind: stepBind, path: want.bind.Path}
	}
	return step{}
}

func contains(paths []string, path string) bool {
	for _, p := range paths {
		if p == path {
			return true
		}
	}
	return false
}

func describe(c Content) string {
	switch {
	case c.Found.Type != "":
		return "another " + c.Found.Type
	case c.Empty:
		return "nothing"
	}
	return "something unknown"
}
