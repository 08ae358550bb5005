package executor

import (
	"fmt"

	"github.com/holdfast-storage/holdfast/fsm"
)

// situation is all that is known of a volume between two calls.
type situation struct {
	volume fsm.VolumeID
	boot   string
	// wish is the log's, nil when it is not known.
	wish *fsm.DesiredVolume
	// fresh: the wish may be acted on. It was read in this session, from a controller
	// that applied all that this host acted on (S14), and the host is adopted (S1).
	fresh bool
	// incarnationID is of whoever said the wish (S1).
	incarnationID []byte
	record        *record
	have          observed
	// toldLimits are those that the log took for those in force, from this process.
	toldLimits *fsm.Limits
}

// background says what to do without being called: create and remove as the log
// says, and take down what is not to be up. It never brings anything up: that
// takes a grant, which only a call gets (S2).
func background(s *situation) desired {
	want := desired{volume: s.volume}
	if !s.fresh || s.wish == nil {
		return want
	}
	want.verb, want.size = s.wish.Goal, s.wish.Size
	want.source, want.sourceSize = s.wish.Source, s.wish.SourceSize
	want.growing = s.wish.Goal == fsm.GoalKeep && s.wish.Operation != 0
	if s.staysUp() {
		want.limits = &s.wish.Limits
	}
	if want.verb != fsm.GoalRemove {
		want.down = s.mustGoDown()
		want.drop = s.mustDrop()
	}
	return want
}

// mustGoDown: the publication ended or is a newer one (S3), or the bring-up was
// interrupted. What is complete and wanted stays as it is.
func (s *situation) mustGoDown() bool {
	held, p := s.record.Staging, s.wish.Publication
	switch {
	case held == nil && s.mayBePrimary():
		return s.have.mounted()
	case held == nil:
		return s.have.up() // nothing was given out, so nothing may be up
	case p == nil || p.Staging == nil || held.Epoch != p.Epoch:
		return true // ended, perhaps revoked while this host was away (S31)
	case p.Ending:
		return true // its end was asked for (S31)
	}
	return !s.complete() && len(s.have.bound) == 0 && !s.wasComplete()
}

// mayBePrimary: a replica is primary before its volume is staged, for a publication.
func (s *situation) mayBePrimary() bool {
	w := s.wish
	return w.Replication != nil && w.Replication.Primary && w.Publication != nil && w.Publication.Staging == nil && w.Teardown == nil
}

// wasComplete: the log knows that it was up in this boot. What is gone since then was
// taken away by somebody else: that is an illness to be told, and to stage again or to
// unstage heals it.
func (s *situation) wasComplete() bool {
	p := s.wish.Publication
	return p.Staging.Done && p.Staging.Boot == s.boot && p.Staging.Path == s.record.Staging.Path
}

// complete tells whether the volume is up as its record says.
func (s *situation) complete() bool {
	held := s.record.Staging
	return held != nil && s.have.Attached() && (held.Block || s.have.staged)
}

// mustDrop lists targets that the log does not want, or whose binding was interrupted.
func (s *situation) mustDrop() []string {
	var drop []string
	for i := range s.record.Targets {
		t := &s.record.Targets[i]
		if !contains(s.have.bound, t.Path) || wishedTarget(s.wish, t.Path) == nil {
			drop = append(drop, t.Path)
		}
	}
	return drop
}

func wishedTarget(w *fsm.DesiredVolume, path string) *fsm.Target {
	if w == nil || w.Publication == nil {
		return nil
	}
	for i := range w.Publication.Targets {
		if w.Publication.Targets[i].Path == path {
			return &w.Publication.Targets[i]
		}
	}
	return nil
}

// missed lists the tear-downs that the log waits for and that nothing owes yet: of
// what was never up here, or is gone since the host was started again. They are
// observed, not remembered (S16).
func missed(s *situation) []owed {
	w := s.wish
	if !s.fresh || w == nil {
		return nil
	}
	held, down := s.record.Staging, !s.have.up() && !s.have.frozen()
	var news []owed
	if w.Teardown != nil && (held == nil && down || held != nil && held.Epoch.Compare(w.Teardown.Epoch) > 0) {
		news = append(news, owed{Epoch: w.Teardown.Epoch})
	}
	p := w.Publication
	switch {
	case p == nil:
	case p.Staging != nil && held == nil && down:
		news = append(news, owed{Epoch: p.Epoch})
	default:
		for i := range p.Targets {
			path := p.Targets[i].Path
			if s.record.target(path) == nil && !contains(s.have.bound, path) {
				news = append(news, owed{Epoch: p.Epoch, Target: path})
			}
		}
	}
	return news
}

// fact is one thing that the log does not know yet. It is one case of an
// Observation; its name is what a repetition is recognised by.
type fact struct {
	name  string
	path  string
	epoch fsm.Epoch
}

const (
	factCreated = "created"
	factGone    = "gone"
	factMissing = "missing"
	factPresent = "present"
	factStaged  = "staged"
	factBound   = "bound"
	factGrown   = "grown"
	factLimited = "limited"
	factHealth  = "condition"
	factFailed  = "failed"
	factInUse   = "in-use"
)

// news lists what was observed and is not what the log believes. A report that
// says nothing new is not made.
func news(s *situation) []fact {
	if s.wish == nil {
		return nil
	}
	var all []fact
	if name := s.deviceNews(); name != "" {
		all = append(all, fact{name: name})
	}
	if !s.staysUp() {
		return all
	}
	p, held := s.wish.Publication, s.record.Staging
	if s.limitsNews() {
		all = append(all, fact{name: factLimited, path: fmt.Sprint(s.wish.Limits), epoch: p.Epoch})
	}
	if !p.Staging.Done && p.Staging.Path == held.Path && p.Staging.Boot == s.boot {
		all = append(all, fact{name: factStaged, path: held.Path, epoch: p.Epoch})
	}
	for i := range p.Targets {
		t := &p.Targets[i]
		if !t.Done && s.record.target(t.Path) != nil && contains(s.have.bound, t.Path) {
			all = append(all, fact{name: factBound, path: t.Path, epoch: p.Epoch})
		}
	}
	return all
}

// staysUp tells whether the volume is up as the log wants it.
func (s *situation) staysUp() bool {
	p, held := s.wish.Publication, s.record.Staging
	return p != nil && p.Staging != nil && held != nil && held.Epoch == p.Epoch && s.complete()
}

// limitsNews: the limits that the log wants are in force, and it has not heard so from
// this process.
func (s *situation) limitsNews() bool {
	wanted := s.wish.Limits
	if s.toldLimits != nil && *s.toldLimits == wanted {
		return false
	}
	return s.have.limits != nil && *s.have.limits == wanted || wanted == (fsm.Limits{}) && !s.have.limited && s.wish.Operation != 0
}

// deviceNews: an absent pool says nothing of its devices (S12).
func (s *situation) deviceNews() string {
	w, have := s.wish, &s.have
	whole := have.Exists && have.Size == w.Size && !have.copying && (have.replica == nil || s.record.Replica != nil && s.record.Replica.Made)
	switch {
	case have.Absent:
	case w.Goal == fsm.GoalCreate && whole && s.fresh:
		if w.ReplicaState == fsm.ReplicaPresent {
			return "" // the log knows, and waits for the other replica
		}
		return factCreated
	case w.Goal == fsm.GoalRemove && s.fresh && !have.Exists && !have.Unfinished && !have.up():
		return factGone
	case w.Goal == fsm.GoalKeep && w.ReplicaState == fsm.ReplicaPresent && !have.Exists:
		return factMissing
	case w.Goal == fsm.GoalKeep && w.ReplicaState == fsm.ReplicaMissing && have.Exists && have.Size >= w.Size:
		return factPresent
	case w.Goal == fsm.GoalKeep && w.Operation != 0 && have.Exists && have.Size >= w.Size && s.fresh:
		return factGrown
	}
	return ""
}
