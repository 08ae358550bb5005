package plan

import (
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// HealthInputs is what a volume's condition is computed from.
type HealthInputs struct {
	Device  executor.Device
	Pool    executor.PoolFacts
	MinFree int64
	Parked  bool
	Size    int64 // bytes that the image had, or must have
	Staged  bool  // by the host's record
	// LimitsError is why the volume's limits are not in force, empty when they are.
	LimitsError       string
	Mounted           bool // or active, for a raw volume
	MeasuredCondition fsm.Condition
	StatsErr          error // of measuring what is mounted
	WasNearlyFull     bool  // the last condition was PoolNearlyFull
	HeaderMissing     bool  // by the host's record
	RequestsHang      bool  // none of its requests ended for StuckAfter
	UnknownReplica    bool  // the host's record says that it is a replica, and the log that it is none
}

// Condition is the volume's health, the same for the log and for NodeGetVolumeStats. Its
// messages contain no figures, so that they change only when the cause does.
func (in *HealthInputs) Condition() fsm.Condition {
	abnormal := func(message string) fsm.Condition { return fsm.Condition{Abnormal: true, Message: message} }
	switch {
	case in.Device.Absent:
		return abnormal("the pool of the volume is absent")
	case !in.Device.Exists:
		return abnormal("the image of the volume is missing")
	case in.Device.Size < in.Size:
		return abnormal("the image of the volume is shorter than it was made")
	case in.HeaderMissing:
		return abnormal("the LUKS header of the volume is missing on this host: `" + RestoreHeaderVerb + "` with the volume's id restores a backup of it")
	case in.UnknownReplica:
		return abnormal(UnknownReplica)
	case in.Parked:
		return abnormal("a command on the device cannot be killed")
	case in.Staged && !in.Mounted:
		return abnormal("the volume is staged, but its mount is gone")
	case in.StatsErr != nil:
		return abnormal("the volume does not answer: " + in.StatsErr.Error())
	case in.RequestsHang:
		return abnormal(RequestsHang)
	case in.MeasuredCondition.Abnormal:
		return in.MeasuredCondition
	case !in.Pool.Absent && in.Pool.Capacity > 0 && in.Pool.Free < max(in.MinFree, minPoolFree):
		return abnormal("the pool of the volume is full")
	case nearlyFull(in.Pool, in.WasNearlyFull):
		return abnormal(PoolNearlyFull)
	case in.Staged && in.LimitsError != "":
		return abnormal("the volume's I/O limits are not in force: " + in.LimitsError)
	}
	return in.MeasuredCondition
}

// UnknownReplica is the condition of a volume whose device became a replica after the log's backup was made. Another host may
// have newer content, which the audit lists as an orphan: the volume is used again once its replication is enabled, for which this
// host's content is taken (S1).
const UnknownReplica = "its device is a replica that the restored log does not know: enable its replication to go on with this content"

// RequestsHang is the condition of a replica whose requests do not end, although its I/O is not suspended: its pool hangs, or
// the kernel lost one of them, as DRBD never ends a flush that waited while I/O was suspended (executor/drbd/DESIGN.md).
const RequestsHang = "the I/O of the volume hangs in the kernel: if its pool answers, restart this host"

// StuckAfter is for how long no request may end before RequestsHang is said.
const StuckAfter = time.Minute

// RequestsSeen is when a replica's requests were last seen to end.
type RequestsSeen struct {
	transferred int64
	since       time.Time
}

// Hang notes an observation, and reports whether requests wait of which none ended since StuckAfter.
func (r *RequestsSeen) Hang(status *executor.ResourceStatus, now time.Time) bool {
	waits := status.InKernel && status.Primary && !status.Suspended && status.Requests > 0
	if !waits || status.Transferred != r.transferred || r.since.IsZero() {
		r.transferred, r.since = status.Transferred, now
		return false
	}
	return now.Sub(r.since) >= StuckAfter
}

// PoolNearlyFull is the condition of a pool's volumes while the pool is nearly full.
const PoolNearlyFull = "the pool of the volume is nearly full"

// Thresholds of a pool's usage in percent: from when the host's log warns, from when its
// volumes' condition does, and below which that condition ends.
const (
	LogAbovePercent   = 80
	warnAbovePercent  = 90
	clearBelowPercent = 85
)

// UsedAbove reports whether more than percent of the pool is used.
func UsedAbove(f executor.PoolFacts, percent int64) bool {
	return !f.Absent && f.Capacity > 0 && f.Free < f.Capacity/100*(100-percent)
}

// nearlyFull reports whether volumes warn of their pool. It has hysteresis: it does not
// change with every block that is written at the threshold.
func nearlyFull(f executor.PoolFacts, already bool) bool {
	if already {
		return UsedAbove(f, clearBelowPercent)
	}
	return UsedAbove(f, warnAbovePercent)
}

// minPoolFree is the free space in bytes below which a pool counts as full, whatever is configured.
const minPoolFree = 1 << 20

// AbnormalMessage is the message of an abnormal condition, else empty.
func AbnormalMessage(c fsm.Condition) string {
	if c.Abnormal {
		return c.Message
	}
	return ""
}
