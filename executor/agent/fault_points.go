package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/holdfast-storage/holdfast/executor/plan"
)

// Faults is called at each fault point, before the work continues. In tests it may never
// return.
type Faults interface{ Hit(point string) }

// FaultPoints lists the fault points of all volumes: around every step, every write of a
// record and every proposal.
var FaultPoints = faultPoints()

func faultPoints() []string {
	points := []string{"unbind.unmounted", "unbind.removed", "down.done"}
	for _, kind := range []plan.StepKind{
		plan.StepCreate, plan.StepActivate, plan.StepProbe, plan.StepWriteRecord, plan.StepFormat, plan.StepReportFormatted, plan.StepMount,
		plan.StepBind, plan.StepUnbind, plan.StepUnmount, plan.StepDeactivate, plan.StepRemove,
		plan.StepCreateFrom, plan.StepExpand, plan.StepChangeUUID, plan.StepExpandFilesystem, plan.StepThrottle, plan.StepTrim,
		plan.StepFreeze, plan.StepTakeSnapshot, plan.StepThaw, plan.StepRemoveSnapshot, plan.StepForgetSnapshotRecord, "save-snapshot",
		"save-record", "propose-stage", "propose-target", "report", "report-staged", "report-bound", "report-reclaimed", "drain",
	} {
		points = append(points, string(kind)+".before", string(kind)+".after")
	}
	slices.Sort(points)
	return points
}

// CryptFaultPoints are those of encrypted volumes only.
var CryptFaultPoints = cryptFaultPoints()

func cryptFaultPoints() []string {
	points := []string{"luks-wipe.recorded", "luks-wipe.wiped"}
	for _, kind := range plan.CryptSteps {
		points = append(points, string(kind)+".before", string(kind)+".after")
	}
	slices.Sort(points)
	return points
}

// RotationFaultPoints are those of the rotation of a key.
var RotationFaultPoints = rotationFaultPoints()

func rotationFaultPoints() []string {
	points := []string{"key-dropped.acknowledged"}
	for _, kind := range plan.RotationSteps {
		points = append(points, string(kind)+".before", string(kind)+".after")
	}
	return points
}

// HeaderBackupFaultPoints are those of a backup of a header of before a rotation.
var HeaderBackupFaultPoints = []string{"stale-header.before", "stale-header.after", "header-backup.removed"}

// ReplicaFaultPoints are those of replicated volumes only.
var ReplicaFaultPoints = replicaFaultPoints()

func replicaFaultPoints() []string {
	points := []string{"set-primary.granted", "end-loser.down", "keep-loser.asked", "keep-loser.cut", "keep-loser.reported", "attach-disk.recorded", "remake-metadata.made", "outdate.before", "outdate.after", "end-freeze.before", "end-freeze.after", "end-freeze.shut-down", "end-freeze.killed"}
	for _, kind := range plan.ReplicaSteps {
		points = append(points, string(kind)+".before", string(kind)+".after")
	}
	slices.Sort(points)
	return points
}

// RestoreFaultPoints are those of what only a restored log asks for.
var RestoreFaultPoints = []string{string(plan.StepRecommitAttachment) + ".before", string(plan.StepRecommitAttachment) + ".after"}

// SiteFaultPoints are those of replication between sites only.
var SiteFaultPoints = siteFaultPoints()

func siteFaultPoints() []string {
	points := []string{"keep-before-sync.asked", "keep-before-sync.cut", "keep-before-sync.reported", "revert-below.recorded", "revert-below.reverted", "remake-reverted.made", "freeze-isolated.before", "freeze-isolated.after"}
	for _, kind := range plan.SiteSteps {
		points = append(points, string(kind)+".before", string(kind)+".after")
	}
	slices.Sort(points)
	return points
}

const (
	faultEnv   = "HOLDFAST_FAULT"
	faultFile  = "fault"
	faultFired = "fault.fired"
)

// FaultsFromEnv kills this process, once, when it reaches the point that is named in
// $HOLDFAST_FAULT or in the file "fault" in the data directory. It is for tests: pass it
// only where fault points were enabled.
func FaultsFromEnv(dir string) Faults { return &envFaults{dir: dir} }

type envFaults struct{ dir string }

func (f *envFaults) Hit(point string) {
	if f.armed(point) && f.disarm(point) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // nothing more is done until the signal arrives
	}
}

func (f *envFaults) armed(point string) bool {
	if text, err := os.ReadFile(filepath.Join(f.dir, faultFile)); err == nil && strings.TrimSpace(string(text)) == point {
		return true
	}
	if os.Getenv(faultEnv) != point {
		return false
	}
	fired, _ := os.ReadFile(filepath.Join(f.dir, faultFired))
	return !slices.Contains(strings.Fields(string(fired)), point)
}

// disarm comes before the kill: the restarted process must get past the point. If disarming
// fails, the process must not be killed.
func (f *envFaults) disarm(point string) bool {
	path := filepath.Join(f.dir, faultFile)
	if text, err := os.ReadFile(path); err == nil && strings.TrimSpace(string(text)) == point && os.Remove(path) != nil {
		return false
	}
	fired, err := os.OpenFile(filepath.Join(f.dir, faultFired), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return false
	}
	defer fired.Close()
	_, err = fired.WriteString(point + "\n")
	return err == nil
}
