package sim

import "math/rand/v2"

// Extras are what some seeds have in addition. They come from a stream of their own, so that the other seeds' tapes
// are what they would be without them.
type Extras struct {
	Encrypted bool // some of the volumes
	Sites     bool // there are two, each with an orchestrator, hosts and controllers of its own
	Roles     bool // some volumes are replicated between them, and move
	Groups    bool // these volumes are of one group, whose role is that of all
	random    *rand.Rand
}

// oneSeedIn is how many seeds there are for one that has a certain extra.
const oneSeedIn = 10

// extrasOf are a seed's.
func extrasOf(seed int) Extras {
	random := rand.New(rand.NewPCG(uint64(seed)*0x9e3779b97f4a7c15, 0xadd5))
	random.Uint64() // the first of neighbouring seeds resemble each other
	random.Uint64()
	x := Extras{Encrypted: random.IntN(oneSeedIn) == 0, Sites: random.IntN(oneSeedIn) == 0, random: random}
	if rolesOf(seed) {
		x.Sites, x.Roles, x.Groups = true, true, seed%2 == 0
	}
	return x
}

// rolesOf tells whether a seed has volumes that are replicated between its two sites.
func rolesOf(seed int) bool {
	random := rand.New(rand.NewPCG(uint64(seed)*0x9e3779b97f4a7c15, 0x5173))
	random.Uint64() // as above
	random.Uint64()
	return random.IntN(oneSeedIn) == 0
}

// aims are the boundaries at which the crashes of a seed with encryption are aimed. The second is one of those to
// which the same scene leads, as often as any.
func (x Extras) aims() []string {
	all := cryptBoundaries()
	first := all[x.random.IntN(len(all))]
	seconds := append(boundaries(), all...)
	if scene := sceneThatLeadsTo([]string{first}, 0); scene != nil && x.random.IntN(2) == 0 {
		seconds = scene.leadsTo
	}
	return []string{first, seconds[x.random.IntN(len(seconds))]}
}
