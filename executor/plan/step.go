package plan

import (
	"github.com/holdfast-storage/holdfast/fsm"
)

// StepKind names one thing that is done to a volume. It is the metric's label and
// the operation's step in the log.
type StepKind string

const (
	StepNone             StepKind = ""
	StepRefuse           StepKind = "refuse"
	StepCreate           StepKind = "create"
	StepCreateFrom       StepKind = "create-from"
	StepExpand           StepKind = "grow"
	StepChangeUUID       StepKind = "identity"
	StepExpandFilesystem StepKind = "grow-filesystem"
	StepThrottle         StepKind = "throttle"
	StepActivate         StepKind = "attach"
	StepProbe            StepKind = "probe"
	StepWriteRecord      StepKind = "record"
	StepFormat           StepKind = "mkfs"
	StepReportFormatted  StepKind = "report-formatted"
	StepMount            StepKind = "mount"
	StepBind             StepKind = "bind"
	StepUnbind           StepKind = "unbind"
	StepUnmount          StepKind = "unmount"
	StepDeactivate       StepKind = "detach"
	StepRemove           StepKind = "remove"

	// Of snapshots.
	StepFreeze               StepKind = "freeze"
	StepTakeSnapshot         StepKind = "cut"
	StepThaw                 StepKind = "thaw"
	StepRemoveSnapshot       StepKind = "remove-snapshot"
	StepForgetSnapshotRecord StepKind = "forget-snapshot" // its record is needed no more
	StepRecordMissing        StepKind = "miss-snapshot"   // it is recorded that its file is missing
)

// Step is one step, with the path it is about.
type Step struct {
	Kind    StepKind
	Path    string
	Refusal *fsm.Rejection // of stepRefuse: nothing can be done, and why
}

func refuse(reason fsm.Reason, format string, args ...any) Step {
	return Step{Kind: StepRefuse, Refusal: fsm.Reject(reason, format, args...)}
}
