package agent

import (
	"context"
	"errors"
	"time"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// proposeTimeout bounds one proposal, whatever the Proposer's own timeout is.
const proposeTimeout = 10 * time.Second

// propose has a command applied. The error is a *fsm.Rejection, or isUnavailable tells
// whether a quorum was missing.
func (p *proposer) propose(ctx context.Context, c *call, cmd *fsmpb.Command) (*fsmpb.Outcome, error) {
	if p.Proposer == nil {
		return nil, &unavailable{errors.New("this host has no controllers")}
	}
	if c != nil {
		c.proposing.Add(1)
		defer c.proposing.Add(-1)
	}
	ctx, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	outcome, err := p.Proposer.Propose(ctx, cmd)
	if err != nil && ctx.Err() != nil && !isUnavailable(err) {
		err = &unavailable{err}
	}
	if err == nil {
		err = fsm.Err(outcome)
	}
	return outcome, err
}

// grantOf is the grant in an outcome, and the epoch at which it was given. The index means
// nothing when another session has begun since: that may be of another incarnation, whose
// log never reaches it (S1).
func (p *proposer) grantOf(session uint64, outcome *fsmpb.Outcome) (*plan.Grant, fsm.Epoch, error) {
	g, format := outcome.GetGrant(), fsm.FormatFrom(outcome.GetGrant().GetFormat())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.session.number != session {
		return nil, fsm.Epoch{}, errSessionChanged
	}
	epoch := fsm.EpochFrom(g.GetEpoch())
	return &plan.Grant{
		Crypt: cryptGrantFrom(g, epoch),

		Session:    session,
		Epoch:      epoch,
		ReadOnly:   g.GetReadOnly(),
		Block:      format.Phase == fsmpb.FormatPhase_FORMAT_PHASE_RAW,
		Formatting: format.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING,
		Cloned:     format.Cloned,

		// A restored log may have forgotten that the filesystem was finished and used.
		FormatBegunBefore:    format.Epoch.Incarnation == epoch.Incarnation && format.Epoch.Index < epoch.Index,
		FormatBegunInLostLog: format.Epoch.Incarnation < p.session.at.Incarnation,

		FS: executor.Filesystem{Type: format.FSType, UUID: format.FSUUID},
	}, fsm.Epoch{Incarnation: p.session.at.Incarnation, Index: outcome.GetIndex()}, nil
}

// cryptGrantFrom is the grant's part about the LUKS header, nil for a volume in clear.
func cryptGrantFrom(g *fsmpb.Grant, epoch fsm.Epoch) *plan.CryptGrant {
	c := fsm.CryptFrom(g.GetCrypt())
	if c == nil {
		return nil
	}
	return &plan.CryptGrant{
		UUID: c.UUID, KeyGeneration: c.KeyGeneration, Cloned: c.Cloned, Discards: c.Discards, Restore: g.GetRestoreHeader(), Formatting: c.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING,
		FormatBegunBefore: c.Epoch.Incarnation == epoch.Incarnation && c.Epoch.Index < epoch.Index,
	}
}

// unavailable is an error that can be retried when there is a quorum again (S28).
type unavailable struct{ err error }

func (u *unavailable) Error() string { return u.err.Error() }

func (u *unavailable) Unwrap() error { return u.err }

func (u *unavailable) Unavailable() bool { return true }

// isUnavailable reports whether a quorum was needed and missing.
func isUnavailable(err error) bool {
	var u interface{ Unavailable() bool }
	return errors.As(err, &u) && u.Unavailable()
}
