package backendtest

import (
	"context"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Gate is asked at every boundary of an effect, and may wait before it answers: for a channel, for
// the end of ctx, and for Boundary.Gone. No lock is held meanwhile.
type Gate interface {
	Pass(ctx context.Context, at Boundary) Answer
}

// Boundary is where an effect begins or has just been done. Observations have a boundary before
// them only.
type Boundary struct {
	Host     fsm.NodeID
	Process  int    // counts the host's processes
	Part     string // of the host: "pool", "mount", "filesystem", "freeze", "throttle", "drbd", "luks"
	Effect   string // such as "create"
	Volume   fsm.VolumeID
	Snapshot fsm.SnapshotID
	Detail   string // a path or a device, where there is one
	After    bool   // the effect has been done
	Read     bool   // it is an observation
	Gone     <-chan struct{}
}

// Name is the part, the effect and the side of it, such as "pool.create.before"; an observation's
// is without the side.
func (b Boundary) Name() string {
	name := b.Part + "." + b.Effect
	switch {
	case b.Read:
		return name
	case b.After:
		return name + ".after"
	}
	return name + ".before"
}

// Answer is what becomes of an effect at a boundary. The zero Answer lets it go on.
type Answer struct {
	kind answerKind
	err  error
}

type answerKind int

const (
	proceeds answerKind = iota
	fails
	lies
	isStuck
)

// Fail has the caller get an error: before the effect nothing is done, after it all is.
func Fail(err error) Answer { return Answer{fails, err} }

// Lie has the caller get success although nothing is done. It is an answer before an effect.
func Lie() Answer { return Answer{kind: lies} }

// Stuck has the caller get an error that says that the tool survives being killed. The effect is
// done by the event "child-ends", also when the process is gone by then. It is an answer before an
// effect.
func Stuck() Answer { return Answer{kind: isStuck} }

// effects are all effects, by part; observations are not among them.
var effects = map[string][]string{
	"pool":       {"create-begin", "create", "remove", "activate", "deactivate", "take-snapshot-begin", "take-snapshot", "remove-snapshot", "create-from-begin", "create-from", "expand", "copy"},
	"mount":      {"format-begin", "format", "mount", "bind", "unmount", "shutdown", "remove-target"},
	"filesystem": {"expand", "change-uuid", "trim"},
	"freeze":     {"freeze", "thaw", "recover"},
	"throttle":   {"apply"},
	"drbd": {
		"configure", "adjust", "remove-config", "create-metadata", "remake-metadata", "wipe-metadata", "attach", "detach", "connect", "disconnect",
		"new-uuid", "set-primary", "set-secondary", "resume-io", "invalidate", "resize", "verify", "down",
	},
}

// cryptEffects are those of encrypted volumes.
var cryptEffects = map[string][]string{
	"luks": {"format-begin", "format", "change-uuid", "open", "close", "resize", "add-key", "kill-slot", "back-up-header", "restore-header", "wipe-header"},
}

// rewriteEffects are those of images whose content is replaced or cut.
var rewriteEffects = map[string][]string{"pool": {"revert-begin", "revert", "shrink"}}

// isolationEffects are those of primaries that are isolated.
var isolationEffects = map[string][]string{"drbd": {"suspend-io"}}

// Boundaries lists the names of all boundaries of effects, sorted, but for those of encrypted volumes,
// of rewritten images and of isolated primaries.
func Boundaries() []string { return boundariesOf(effects) }

// CryptBoundaries lists those of encrypted volumes, sorted.
func CryptBoundaries() []string { return boundariesOf(cryptEffects) }

// RewriteBoundaries lists those of images that are reverted and shrunk, sorted.
func RewriteBoundaries() []string { return boundariesOf(rewriteEffects) }

// IsolationBoundaries lists those of primaries that are isolated, sorted.
func IsolationBoundaries() []string { return boundariesOf(isolationEffects) }

func boundariesOf(effects map[string][]string) (names []string) {
	for part, all := range effects {
		for _, effect := range all {
			b := Boundary{Part: part, Effect: effect}
			names = append(names, b.Name())
			b.After = true
			names = append(names, b.Name())
		}
	}
	slices.Sort(names)
	return names
}
