package plan

import (
	"github.com/holdfast-storage/holdfast/fsm"
)

// StepKind names one step on a host. Its value is the metric's label, the fault point and the
// operation's step in the log. Values are fixed, and older than the constants' names in places.
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
	StepTrim             StepKind = "trim"
	StepImport           StepKind = "import"
	StepVerifyImport     StepKind = "verify-import"
	StepReplaceMetadata  StepKind = "replace-metadata"
	StepGiveBack         StepKind = "give-back"

	// Steps of encrypted volumes.
	StepProbeHeader      StepKind = "probe-header"
	StepFormatHeader     StepKind = "luks-format"
	StepChangeHeaderUUID StepKind = "luks-uuid"
	StepBackUpHeader     StepKind = "luks-backup"
	StepReportHeader     StepKind = "report-header"
	StepRestoreHeader    StepKind = "luks-restore"
	StepOpenMapping      StepKind = "luks-open"
	StepResizeMapping    StepKind = "luks-resize"
	StepCloseMapping     StepKind = "luks-close"
	StepWipeHeader       StepKind = "luks-wipe"

	// Steps of the rotation of a key (S64).
	StepReadSlots        StepKind = "rotate-read"
	StepBeginRotation    StepKind = "propose-rotation"
	StepAddKey           StepKind = "rotate-add"
	StepCheckKey         StepKind = "rotate-check"
	StepReportKeyAdded   StepKind = "report-key-added"
	StepDropKey          StepKind = "rotate-drop"
	StepBackUpRotated    StepKind = "rotate-backup"
	StepReportKeyDropped StepKind = "report-key-dropped"

	// Steps of snapshots.
	StepFreeze               StepKind = "freeze"
	StepTakeSnapshot         StepKind = "cut"
	StepThaw                 StepKind = "thaw"
	StepRemoveSnapshot       StepKind = "remove-snapshot"
	StepForgetSnapshotRecord StepKind = "forget-snapshot" // its record is not needed any more
	StepRecordMissing        StepKind = "miss-snapshot"   // records that its file is missing
)

// CryptSteps are the kinds of all steps of encrypted volumes.
var CryptSteps = []StepKind{
	StepProbeHeader, StepFormatHeader, StepChangeHeaderUUID, StepBackUpHeader, StepReportHeader, StepRestoreHeader, StepOpenMapping, StepResizeMapping, StepCloseMapping, StepWipeHeader,
}

// RotationSteps are the kinds of all steps of a rotation.
var RotationSteps = []StepKind{
	StepReadSlots, StepBeginRotation, StepAddKey, StepCheckKey, StepReportKeyAdded, StepDropKey, StepBackUpRotated, StepReportKeyDropped,
}

// Step is one step, with the path that it is about.
type Step struct {
	Kind    StepKind
	Path    string
	Refusal *fsm.Rejection // of StepRefuse: why nothing can be done
}

func refuse(reason fsm.Reason, format string, args ...any) Step {
	return Step{Kind: StepRefuse, Refusal: fsm.Reject(reason, format, args...)}
}
