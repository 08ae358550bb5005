package fsm

import "fmt"

// finder finds records by what their tables are not ordered by. Its maps are only
// looked up, never iterated over. It belongs to one state alone: a fork has none,
// so that Fork is O(1), and makes its own when it applies something itself.
type finder struct {
	names   map[string]uuid // of live volumes (S101); nil until a plan asks for one
	answers map[answerKey]*answer
	plan    bool // the fork is only a plan: it knows no answers but its own
}

// newPlanFinder is of a fork that is only a plan.
func newPlanFinder() *finder { return &finder{answers: map[answerKey]*answer{}, plan: true} }

func newFinder(volumes, answers int) *finder {
	return &finder{names: make(map[string]uuid, volumes), answers: make(map[answerKey]*answer, answers)}
}

// ownFinder makes a fork's finder.
func (s *State) ownFinder() {
	if s.find != nil {
		return
	}
	s.find = newFinder(s.volumes.Len(), s.answers.Len())
	s.findNames()
	s.answers.Scan(func(_ uint64, a *answer) bool {
		s.find.answers[a.key] = a
		return true
	})
}

// findNames looks through all volumes.
func (s *State) findNames() {
	s.find.names = make(map[string]uuid, s.volumes.Len())
	s.volumes.Scan(func(e volumeEntry) bool {
		s.find.rename("", e.record.liveName(), e.key)
		return true
	})
}

// rename moves a volume from the live name it had to the one it has; empty is none.
func (f *finder) rename(was, is string, key uuid) {
	if was == is || f.names == nil {
		return
	}
	if was != "" && f.names[was] == key {
		delete(f.names, was)
	}
	if is != "" {
		f.names[is] = key
	}
}

// named finds the live volume of a name. A fork without a finder looks through all.
func (s *State) named(name string) (key uuid, ok bool) {
	if s.find != nil {
		if s.find.names == nil {
			s.findNames()
		}
		key, ok = s.find.names[name]
		return key, ok
	}
	s.volumes.Scan(func(e volumeEntry) bool {
		if ok = e.record.liveName() == name; ok {
			key = e.key
		}
		return !ok
	})
	return key, ok
}

// check is S101 and S102: everything is found, and nothing else.
func (f *finder) check(s *State) error {
	if f.plan {
		return nil
	}
	var err error
	live := 0
	s.volumes.Scan(func(e volumeEntry) bool {
		name := e.record.liveName()
		if name == "" {
			return true
		}
		live++
		if f.names[name] != e.key {
			err = broken("S101", "volumes %s and %s both have the name %q", volumeIDOf(f.names[name]), e.record.ID, name)
		}
		return err == nil
	})
	s.answers.Scan(func(index uint64, a *answer) bool {
		if err == nil && (f.answers[a.key] != a || a.index != index) {
			err = broken("S102", "the answer of index %d is not found by its request", index)
		}
		return err == nil
	})
	if err == nil && (live != len(f.names) || len(f.answers) != s.answers.Len()) {
		err = fmt.Errorf("invariants S101, S102: %d names of %d and %d requests of %d are known", len(f.names), live, len(f.answers), s.answers.Len())
	}
	return err
}
