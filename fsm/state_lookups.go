package fsm

import "fmt"

// lookups finds volumes by name and answers by request. Its maps are only
// looked up, never iterated over. It belongs to one state alone: a fork has none,
// so that Fork is O(1), and builds its own when it applies something itself.
type lookups struct {
	names   map[scopedName]uuid // of live volumes (S101); nil in a trial fork until one is asked for
	answers map[answerKey]*answer
	trial   bool // a trial fork: it knows no answers but its own
}

// newTrialLookups is for a trial fork.
func newTrialLookups() *lookups { return &lookups{answers: map[answerKey]*answer{}, trial: true} }

func newLookups(volumes, answers int) *lookups {
	return &lookups{names: make(map[scopedName]uuid, volumes), answers: make(map[answerKey]*answer, answers)}
}

// ensureLookups builds the lookups of a fork.
func (s *State) ensureLookups() {
	if s.lookups != nil {
		return
	}
	s.lookups = newLookups(s.volumes.Len(), s.answers.Len())
	s.indexNames()
	s.answers.Scan(func(_ uint64, a *answer) bool {
		s.lookups.answers[a.key] = a
		return true
	})
}

// indexNames builds the names of all live volumes, in O(volumes).
func (s *State) indexNames() {
	s.lookups.names = make(map[scopedName]uuid, s.volumes.Len())
	s.volumes.Scan(func(e volumeItem) bool {
		s.lookups.rename(scopedName{}, e.stored.liveName(), e.key)
		return true
	})
}

// rename moves a volume from the live name it had to the one it has; empty is none.
func (l *lookups) rename(before, after scopedName, key uuid) {
	if before == after || l.names == nil {
		return
	}
	if !before.isZero() && l.names[before] == key {
		delete(l.names, before)
	}
	if !after.isZero() {
		l.names[after] = key
	}
}

// volumeKeyByName finds the live volume of a name; the zero name is nobody's. A fork without lookups scans all volumes.
func (s *State) volumeKeyByName(name scopedName) (key uuid, ok bool) {
	if name.isZero() {
		return key, false
	}
	if s.lookups != nil {
		if s.lookups.names == nil {
			s.indexNames()
		}
		key, ok = s.lookups.names[name]
		return key, ok
	}
	s.volumes.Scan(func(e volumeItem) bool {
		if ok = e.stored.liveName() == name; ok {
			key = e.key
		}
		return !ok
	})
	return key, ok
}

// check is S101 and S102: every record is found, and nothing else.
func (l *lookups) check(s *State) error {
	if l.trial {
		return nil
	}
	var err error
	live := 0
	s.volumes.Scan(func(e volumeItem) bool {
		name := e.stored.liveName()
		if name.isZero() {
			return true
		}
		live++
		if l.names[name] != e.key {
			err = violated("S101", "volumes %s and %s of site %s both have the name %q", volumeIDFromUUID(l.names[name]), e.stored.ID, name.site, name.name)
		}
		return err == nil
	})
	s.answers.Scan(func(index uint64, a *answer) bool {
		if err == nil && (l.answers[a.key] != a || a.index != index) {
			err = violated("S102", "the answer of index %d is not found by its request", index)
		}
		return err == nil
	})
	if err == nil && (live != len(l.names) || len(l.answers) != s.answers.Len()) {
		err = fmt.Errorf("invariants S101, S102: %d names of %d and %d requests of %d are known", len(l.names), live, len(l.answers), s.answers.Len())
	}
	return err
}
