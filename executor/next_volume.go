package executor

import (
	"github.com/holdfast-storage/holdfast/fsm"
	"slices"
)

// stepKind names one thing that is done to a volume. It is the metric's label and
// the operation's step in the log.
type stepKind string

const (
	stepNone             stepKind = ""
	stepRefuse           stepKind = "refuse"
	stepCreate           stepKind = "create"
	stepCreateFrom       stepKind = "create-from"
	stepExpand           stepKind = "grow"
	stepChangeUUID       stepKind = "identity"
	stepExpandFilesystem stepKind = "grow-filesystem"
	stepThrottle         stepKind = "throttle"
	stepActivate         stepKind = "attach"
	stepProbe            stepKind = "probe"
	stepWriteRecord      stepKind = "record"
	stepFormat           stepKind = "mkfs"
	stepReportFormatted  stepKind = "report-formatted"
	stepMount            stepKind = "mount"
	stepBind             stepKind = "bind"
	stepUnbind           stepKind = "unbind"
	stepUnmount          stepKind = "unmount"
	stepDeactivate       stepKind = "detach"
	stepRemove           stepKind = "remove"

	// Of snapshots.
	stepFreeze               stepKind = "freeze"
	stepTakeSnapshot         stepKind = "cut"
	stepThaw                 stepKind = "thaw"
	stepRemoveSnapshot       stepKind = "remove-snapshot"
	stepForgetSnapshotRecord stepKind = "forget-snapshot" // its record is needed no more
	stepRecordMissing        stepKind = "miss-snapshot"   // it is recorded that its file is missing
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

// volumeSpec is what a volume should be on this host. Its parts are asked for one at
// a time: a call brings up or takes down, the background creates and removes.
type volumeSpec struct {
	volume      fsm.VolumeID
	goal        fsm.Goal // zero: make and remove nothing
	size        int64    // bytes
	takeDown    bool     // nothing of it may be up
	dropTargets []string // targets that may not be bound
	grant       *grant   // bring it up
	source      fsm.Source
	// sourceSize is how many bytes of content a source that is a snapshot has; 0: not known.
	sourceSize int64
	// expanding: an operation may be an expansion, so a device below size is to grow.
	expanding bool
	// limits are to be in force on the device; nil: not said.
	limits *fsm.Limits
	// What the host can do.
	canExpandFilesystem, canThrottle bool
	bind                             *targetRecord // bind it, with the grant
}

// observed is what a volume is on this host.
type observedVolume struct {
	Device
	replica *observedReplica // of a replicated volume
	staged  bool             // its filesystem is mounted at the staging path
	// stagedAt is that path as the kernel names it.
	stagingPath   string
	boundTargets  []string // its targets that are mounted
	foreignMounts []string // where else it is mounted
	content       Content
	// recorded: the record on disk names what the grant brings up; marked: it says
	// that this host began to make the grant's filesystem (S15).
	recorded, formatBegun bool
	// targetRecorded: the record on disk names the target to be bound.
	targetRecorded bool
	// olderEpoch: what is recorded belongs to an earlier publication than the grant's (S3).
	olderEpoch bool
	// formatted: mkfs ended under this grant.
	formatted     bool
	recordedSize  int64       // the size that the record says the image had
	filesystemFor int64       // the device's size for which the filesystem was made or grown
	limits        *fsm.Limits // in force; nil: not known
	mayBeLimited  bool        // the record says that some may be
	mayBeTorn     bool        // the record says that the image may be torn
}

// isUp tells whether anything of the volume is given out.
func (o *observedVolume) isUp() bool {
	return o.staged || len(o.boundTargets) > 0 || len(o.foreignMounts) > 0 || o.Active()
}

// mounted tells whether it is, anywhere.
func (o *observedVolume) isMounted() bool {
	return o.staged || len(o.boundTargets) > 0 || len(o.foreignMounts) > 0
}

// frozen tells whether somebody may still wait for a write to it.
func (o *observedVolume) ioSuspended() bool { return o.replica != nil && o.replica.Suspended }

// deviceSize is the size of the block device in bytes: that of a replicated volume
// follows when the devices below both replicas are as large.
func (o *observedVolume) deviceSize() int64 {
	if o.replica != nil && o.replica.Primary && o.replica.ResourceStatus.Size > 0 {
		return o.replica.ResourceStatus.Size
	}
	return o.Size
}

// next picks the one step that brings have closer to want. It is pure: every rule
// about order and safety is here, and is tested as a table.
func nextVolumeStep(want *volumeSpec, have *observedVolume) step {
	switch {
	case want.takeDown:
		return nextTakeDown(want, have)
	case len(want.dropTargets) > 0:
		return step{kind: stepUnbind, path: want.dropTargets[0]}
	case want.grant != nil && want.bind != nil:
		return nextBind(want, have)
	case want.grant != nil:
		return nextBringUp(want, have)
	case want.goal == fsm.GoalRemove:
		return nextRemove(want, have)
	case want.goal == fsm.GoalCreate:
		return nextCreate(want, have)
	case have.Absent || !have.Exists:
	case want.mayExpand(have):
		return step{kind: stepExpand}
	case want.expanding && have.Size < want.size:
		return refuse(fsm.Precondition, "the image of volume %s has %d bytes, and had %d: it lost its end, and is not grown over", want.volume, have.Size, have.recordedSize)
	case want.limits != nil && have.Active():
		return nextLimits(want, have)
	}
	return step{} // a Ready volume without its device is reported missing, never remade (S14)
}

// nextTakeDown ends what is up, from the targets down. It never ends what it does not
// know: another mount of the volume keeps its device.
func nextTakeDown(want *volumeSpec, have *observedVolume) step {
	switch {
	case len(have.boundTargets) > 0:
		return step{kind: stepUnbind, path: have.boundTargets[0]}
	case len(have.foreignMounts) > 0:
		return refuse(fsm.Busy, "volume %s is also mounted at %s", want.volume, have.foreignMounts[0])
	case have.staged:
		return step{kind: stepUnmount}
	case have.Active():
		return step{kind: stepDeactivate}
	}
	return step{}
}

// remove is said by a Deleting record for this host's replica (S14).
func nextRemove(want *volumeSpec, have *observedVolume) step {
	switch {
	case have.isUp():
		return nextTakeDown(want, have)
	case have.Absent: // nothing is known to be gone from an absent pool (S12)
		return refuse(fsm.Unreachable, "the pool of volume %s is absent", want.volume)
	case have.Exists || have.Unfinished:
		return step{kind: stepRemove}
	}
	return step{}
}

// create belongs to a Creating volume (S14).
func nextCreate(want *volumeSpec, have *observedVolume) step {
	switch {
	case have.Absent:
		return refuse(fsm.Unreachable, "the pool of volume %s is absent", want.volume)
	case have.Exists && have.mayBeTorn:
		return step{kind: stepRemove} // it was never reported
	case !have.Exists && !want.source.IsZero():
		return step{kind: stepCreateFrom}
	case !have.Exists:
		return step{kind: stepCreate}
	case have.Size != want.size:
		return refuse(fsm.Incompatible, "the image of volume %s has %d bytes, not %d", want.volume, have.Size, want.size)
	}
	return step{}
}

// nextBringUp gives the volume out where the grant says.
func nextBringUp(want *volumeSpec, have *observedVolume) step {
	switch {
	case have.Absent:
		return refuse(fsm.Precondition, "the pool of volume %s is absent", want.volume)
	case !have.Exists:
		return refuse(fsm.Precondition, "the device of volume %s is missing", want.volume)
	case want.mayExpand(have):
		return step{kind: stepExpand}
	case have.Size < want.size || have.Size < have.recordedSize:
		return refuse(fsm.Precondition, "the image of volume %s has %d bytes, not %d", want.volume, have.Size, max(want.size, have.recordedSize))
	case have.olderEpoch && have.isUp():
		return nextTakeDown(want, have) // a mount of an older epoch goes first (S3)
	case want.grant.block:
		return nextBringUpRaw(want, have)
	case have.staged && have.recorded:
		return nextWhileStaged(want, have) // the log recorded the format before the first mount
	case !have.Active():
		return step{kind: stepActivate}
	case !have.content.Read:
		return step{kind: stepProbe}
	case want.grant.formatting:
		return nextFormat(want, have)
	case want.grant.cloned:
		return nextChangeUUID(want, have)
	case have.content.Found != want.grant.fs:
		return refuse(fsm.Precondition, "%s of volume %s holds %s, not the %s that was made for it",
			have.Path, want.volume, describeContent(have.content), want.grant.fs.Type)
	case !have.recorded:
		return step{kind: stepWriteRecord}
	}
	if s := nextExpandFilesystem(want, have, expandedBeforeMount); s.kind != stepNone {
		return s
	}
	if s := nextLimits(want, have); s.kind != stepNone {
		return s
	}
	return step{kind: stepMount}
}

// nextWhileStaged does what is left to do on a mounted filesystem.
func nextWhileStaged(want *volumeSpec, have *observedVolume) step {
	if s := nextLimits(want, have); s.kind != stepNone {
		return s
	}
	return nextExpandFilesystem(want, have, "xfs")
}

// nextBringUpRaw: attaching is giving out, so the record comes first.
func nextBringUpRaw(want *volumeSpec, have *observedVolume) step {
	g := want.grant
	switch {
	case !have.recorded:
		return step{kind: stepWriteRecord}
	case !have.Active(), have.ReadOnly != g.readOnly && len(have.boundTargets) == 0:
		return step{kind: stepActivate}
	}
	return nextLimits(want, have)
}

// format makes the filesystem once in the volume's life, and again only over what
// is known to be this host's own beginning of it: the device was never mounted nor
// given out while the state is `formatting` (S15).
func nextFormat(want *volumeSpec, have *observedVolume) step {
	ours := have.content.Found == want.grant.fs
	switch {
	case have.formatted:
		return step{kind: stepReportFormatted}
	case !have.content.Empty && !ours && !have.formatBegun:
		return refuse(fsm.Precondition, "%s of volume %s holds %s: no filesystem is made over it", have.Path, want.volume, describeContent(have.content))
	case !have.recorded || !have.formatBegun:
		return step{kind: stepWriteRecord}
	}
	return step{kind: stepFormat}
}

// nextBind makes the volume visible at a target path.
func nextBind(want *volumeSpec, have *observedVolume) step {
	switch {
	case !have.recorded || !have.Active() || !want.grant.block && !have.staged:
		return refuse(fsm.Precondition, "volume %s is not staged at %s", want.volume, want.grant.path)
	case !have.targetRecorded:
		return step{kind: stepWriteRecord}
	case !slices.Contains(have.boundTargets, want.bind.Path):
		return step{kind: stepBind, path: want.bind.Path}
	}
	return step{}
}

func describeContent(c Content) string {
	switch {
	case c.Found.Type != "":
		return "another " + c.Found.Type
	case c.Empty:
		return "nothing"
	}
	return "something unknown"
}
