package drbdmodel

import (
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
)

// randomStep does one of the things that happen to a pair that is fenced by a log that never errs:
// only the replica that is up to date and alone goes on.
func randomStep(p *Pair, r *rand.Rand) {
	i := r.Intn(2)
	switch r.Intn(16) {
	case 0:
		p.SetLink(!p.LinkUp())
	case 1:
		p.FailDisk(i)
	case 2:
		p.Attach(i)
	case 3:
		p.Connect(i, false)
	case 4:
		p.Disconnect(i)
	case 5, 6:
		p.Handshake()
	case 7:
		p.FinishSync()
	case 8:
		p.Promote(i, !p.Observe(1-i).Primary && p.Observe(i).HasAll && p.Observe(1-i).Disk <= diskless)
	case 9:
		p.Demote(i)
	case 10:
		if s := p.Observe(i); s.HasAll && !p.Observe(1-i).Primary {
			p.Resume(i, true)
		}
	case 11:
		p.Begin(i, r.Intn(2) == 0, r.Intn(2) == 0)
	case 12:
		p.PowerOff(i)
	case 13:
		p.PowerOn(i)
	case 14:
		p.Complete(i)
	default:
		p.Write(i)
	}
}

// Two disks that the kernels call up to date in one generation have the same content: the bitmaps
// named all that differed.
func TestTheBitmapsNameAllThatDiffers(t *testing.T) {
	synchronised := 0
	for seed := range 3000 {
		r, p := rand.New(rand.NewSource(int64(seed))), NewInSync(8)
		for range 200 {
			before := p
			randomStep(&p, r)
			a, b := p.Observe(0), p.Observe(1)
			if before.target >= 0 && p.target < 0 && a.Connected() {
				synchronised++
			}
			if p.violation == "" && p.replicas[0].inFlight == p.replicas[1].inFlight && a.Connection == connected && a.Disk == upToDate && b.Disk == upToDate {
				require.Equal(t, p.Content(0), p.Content(1), "seed %d: %s\n%s", seed, before.String(), p.String())
			}
		}
	}
	require.NotZero(t, synchronised)
}

func TestACopyIsIndependentAndTheSameStepsGiveTheSameStates(t *testing.T) {
	p := inUse()
	kept := p
	for _, pair := range []*Pair{&p, &kept} {
		r := rand.New(rand.NewSource(7))
		for range 500 {
			randomStep(pair, r)
		}
		if pair == &p {
			require.NotEqual(t, p, kept)
		}
	}
	require.Equal(t, p, kept)
}
