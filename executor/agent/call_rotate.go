package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// RotateKey replaces the key of an encrypted volume that is staged here (S64). Interrupted at any time, either key
// opens the volume until a repetition is done. NotFound: the volume is not here, or not at the path.
// Invalid: it is not encrypted. Unauthenticated: none of the passphrases opens it. Precondition: it is
// staged for reading only. Busy: another call is under way, or something changed meanwhile.
func (a *Agent) RotateKey(ctx context.Context, req executor.RotateRequest) error {
	if !req.Volume.Valid() || !a.isKnown(req.Volume) {
		return fsm.Reject(fsm.NotFound, "volume %s is not on this node", req.Volume)
	}
	return a.calls.serveCall(ctx, req.Volume, rotationKey(&req), func(ctx context.Context, v *volume, c *call) error {
		return a.rotator.rotate(ctx, v, c, &req)
	})
}

// callSalt keeps what is in rotationKey from being compared with anything outside this process.
var callSalt = rand.Text()

// rotationKey tells calls with other passphrases apart, without having them (S63).
func rotationKey(req *executor.RotateRequest) string {
	h := sha256.New()
	for _, key := range append([]executor.Passphrase{executor.NewPassphrase(callSalt), req.New}, req.Old...) {
		_, _ = fmt.Fprintf(h, "%d:%s", len(key.Reveal()), key.Reveal())
	}
	return fmt.Sprintf("rotate %v %s %x", req.Capability, req.Path, h.Sum(nil))
}

func (r *keyRotator) rotate(ctx context.Context, v *volume, c *call, req *executor.RotateRequest) error {
	below, err := r.rotatable(ctx, v, req)
	if err != nil {
		return err
	}
	if err := r.outbox.drain(ctx, v, c, drainTimeout); err != nil {
		return err
	}
	j := &rotation{keyRotator: r, v: v, call: c, req: req, device: below, staging: v.record.Staging.Epoch}
	if err := j.run(ctx); !errors.Is(err, errSessionChanged) {
		return err
	}
	return fsm.Reject(fsm.Busy, "volume %s: the session with the controllers changed; retry", v.id)
}

// rotatable returns the device that has the header, of a volume that is staged for writing.
func (r *keyRotator) rotatable(ctx context.Context, v *volume, req *executor.RotateRequest) (string, error) {
	have, err := r.observer.observeVolume(ctx, v, nil)
	if err != nil {
		return "", err
	}
	staged := v.record.Staging
	switch {
	case !have.Active() || staged == nil || req.Path != "" && !r.observer.isAt(&have, staged, req.Path):
		return "", fsm.Reject(fsm.NotFound, "volume %s is not staged on this node, or not at that path", v.id)
	case staged.Block != req.Capability.Block && req.Capability != (fsm.Capability{}):
		return "", fsm.Reject(fsm.Invalid, "volume %s is not staged for %s", v.id, req.Capability)
	case have.Crypt == nil:
		return "", fsm.Reject(fsm.Invalid, "volume %s is not encrypted", v.id)
	case !have.Crypt.Mapping.Exists:
		return "", fsm.Reject(fsm.NotFound, "volume %s is not open on this node", v.id)
	case have.Crypt.Mapping.ReadOnly || have.Crypt.Below.ReadOnly:
		return "", fsm.Reject(fsm.Precondition, "volume %s is staged for reading only", v.id)
	}
	return have.Crypt.Below.Path, nil
}

// maxRotationSteps is above what the removal of all slots of a header takes.
const maxRotationSteps = 100

// rotation is one rotation of a key, under the volume's lock.
type rotation struct {
	*keyRotator
	v       *volume
	call    *call
	req     *executor.RotateRequest
	device  string
	staging fsm.Epoch // of the publication under which it is staged

	view       plan.RotationView
	generation uint64              // of the key, by the log, when it was begun
	opened     []uint32            // of the slots, by the new key
	known      executor.Passphrase // opens one of them
}

func (j *rotation) run(ctx context.Context) error {
	j.view.Volume = j.v.id
	for range maxRotationSteps {
		s := plan.NextRotationStep(&j.view)
		switch s.Kind {
		case plan.StepNone:
			return nil
		case plan.StepRefuse:
			return s.Refusal
		}
		j.hitFaultPoint(string(s.Kind) + ".before")
		err := j.perform(ctx, s.Kind)
		j.hitFaultPoint(string(s.Kind) + ".after")
		if err != nil {
			return wrapStep(j.v, s.Kind, err)
		}
		if s.Kind == plan.StepReportKeyDropped {
			return nil
		}
	}
	return fsm.Reject(fsm.Busy, "volume %s: its header keeps changing; retry", j.v.id)
}

// isRenewal reports whether the key gets another slot and stays the same.
func (j *rotation) isRenewal() bool {
	for _, old := range j.req.Old {
		if !old.IsZero() && old != j.req.New {
			return false
		}
	}
	return true
}
