package sim

// aim is a boundary at which a seed's crash is aimed, and how often it is to be passed before.
type aim struct {
	name  string
	skip  int
	power bool // the host loses its power, not only its process
	done  bool
}

// aimedAt is the aim that is met now, nil for none.
func (s *Sim) aimedAt(name string) *aim {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.aims {
		if a.name == name && !a.done && s.phase != phaseOver {
			if a.skip--; a.skip < 0 {
				a.done = true
				return a
			}
			return nil
		}
	}
	return nil
}

// aimsOf are the boundaries at which a seed's crashes are aimed: the first is each in turn. The second
// is one of those to which the same scene leads, or any where there is no scene.
func aimsOf(seed int, x Extras) []string {
	if x.Encrypted {
		return x.aims()
	}
	all := boundaries()
	first, round := all[seed%len(all)], roundOf(seed)
	seconds := all
	if scene := sceneThatLeadsTo([]string{first}, round); scene != nil {
		seconds = scene.leadsTo
	}
	return []string{first, seconds[(seed+31*(round+1))%len(seconds)]}
}

// roundOf counts the seeds that have the same first aim.
func roundOf(seed int) int { return seed / len(boundaries()) }
