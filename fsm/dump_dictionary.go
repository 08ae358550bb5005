package fsm

import (
	"cmp"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// dictionary numbers the values that many records have in common, from one, in sorted order,
// so that equal states have equal dumps. Zero is the empty value.
type dictionary struct {
	texts      map[string]uint32
	sorted     []string
	requisites map[string]uint32
	sets       [][]Topology // by number less one
	scratch    encoder
	last       []Topology // the set that setRef was asked for last, and its answer
	lastRef    uint32
}

// collectDictionary reads the whole state once for the values of its dictionary.
func collectDictionary(s *State) *dictionary {
	d := &dictionary{texts: map[string]uint32{}, requisites: map[string]uint32{}}
	for v := range s.storedVolumes() {
		d.addVolume(v)
	}
	s.answers.Scan(func(_ uint64, a *answer) bool {
		d.add(a.key.actor)
		return true
	})
	slices.Sort(d.sorted)
	for i, text := range d.sorted {
		d.texts[text] = uint32(i) + 1
	}
	slices.SortFunc(d.sets, compareSets)
	for i, set := range d.sets {
		d.requisites[string(d.encoded(set))] = uint32(i) + 1
	}
	d.last = nil
	return d
}

func compareSets(a, b []Topology) int {
	return slices.CompareFunc(a, b, func(s, t Topology) int {
		return cmp.Or(slices.CompareFunc(s, t, compareLabels), cmp.Compare(len(s), len(t)))
	})
}

func (d *dictionary) add(text string) {
	if _, known := d.texts[text]; text != "" && !known {
		d.texts[text] = 0
		d.sorted = append(d.sorted, text)
	}
}

func (d *dictionary) addVolume(v *Volume) {
	if _, known := d.texts[string(v.Fingerprint)]; !known { // no copy is made to look
		d.add(string(v.Fingerprint))
	}
	for i := range v.Capabilities {
		d.addCapability(&v.Capabilities[i])
	}
	d.addSet(v.Requisite)
	for i := range v.Replicas {
		r := &v.Replicas[i]
		d.add(string(r.Node))
		d.add(string(r.Host))
		d.add(string(r.Pool))
	}
	d.add(v.Format.FSType)
	for _, p := range v.Publications() {
		d.addPublication(&p)
	}
	for _, t := range v.Teardowns {
		d.add(string(t.Node))
		d.add(string(t.Host))
	}
}

func (d *dictionary) addPublication(p *Publication) {
	d.add(string(p.Node))
	d.add(string(p.Host))
	d.addCapability(&p.Capability)
	if p.Staging != nil {
		d.add(p.Staging.Boot)
		d.addCapability(&p.Staging.Capability)
	}
	for i := range p.Targets {
		d.addCapability(&p.Targets[i].Capability)
	}
}

func (d *dictionary) addCapability(c *Capability) {
	d.add(c.FSType)
	d.add(c.Flags)
}

func (d *dictionary) addSet(set []Topology) {
	if len(set) == 0 {
		return
	}
	if len(d.last) == len(set) && &d.last[0] == &set[0] {
		return
	}
	d.last = set
	key := d.encoded(set)
	if _, known := d.requisites[string(key)]; known {
		return
	}
	d.requisites[string(key)] = 0
	d.sets = append(d.sets, set)
	for _, term := range set {
		for _, l := range term {
			d.add(l.Key)
			d.add(l.Value)
		}
	}
}

// encoded is the set as a key, good until the next call.
func (d *dictionary) encoded(set []Topology) []byte {
	d.scratch.b = d.scratch.b[:0]
	for _, term := range set {
		hashLabels(&d.scratch, term)
	}
	return d.scratch.b
}

func (d *dictionary) ref(text string) uint32 { return d.texts[text] }

func (d *dictionary) set(set []Topology) *fsmpb.RequisiteRecord {
	r := &fsmpb.RequisiteRecord{}
	for _, term := range set {
		t := &fsmpb.TermRecord{}
		for _, l := range term {
			t.Labels = append(t.Labels, d.ref(l.Key), d.ref(l.Value))
		}
		r.Terms = append(r.Terms, t)
	}
	return r
}

func (d *dictionary) setRef(set []Topology) uint32 {
	if len(set) == 0 {
		return 0
	}
	if len(d.last) != len(set) || &d.last[0] != &set[0] { // volumes of one class share theirs
		d.last, d.lastRef = set, d.requisites[string(d.encoded(set))]
	}
	return d.lastRef
}
