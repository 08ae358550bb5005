package drbdmodel

// JustCreated is the current UUID of metadata that were just created.
const JustCreated = 4

// historySlots is how many past generations the metadata of DRBD 8.4 hold.
const historySlots = 2

// bitmapOffset is what the kernel adds to a bitmap's UUID for the history when the synchronisation
// that it described is done (UUID_NEW_BM_OFFSET).
const bitmapOffset = 1 << 48

// Generations are the UUIDs of one replica's metadata. The lowest bit, by which the kernel marks a
// primary, is always 0 here.
type Generations struct {
	// Current names the content. Bitmap names the content that the peer was left behind with: the
	// bitmap says what differs from it; 0 while the peer follows. History are earlier ones of Bitmap.
	Current, Bitmap uint64
	History         [historySlots]uint64
}

// begin begins a generation that the peer does not have.
func (g *Generations) begin(current uint64) {
	if g.Bitmap == 0 {
		g.Bitmap = g.Current
	}
	g.Current = current
}

// endBitmap moves the bitmap's UUID to the history: the peer has the current generation now.
func (g *Generations) endBitmap() {
	if g.Bitmap != 0 {
		g.History = [historySlots]uint64{g.Bitmap + bitmapOffset, g.Bitmap}
	}
	g.Bitmap = 0
}

func (g *Generations) inHistory(uuid uint64) bool {
	for _, past := range g.History {
		if past != 0 && past == uuid {
			return true
		}
	}
	return false
}

// Comparison says what one of two replicas becomes when they meet. Its negative says it of the
// other replica, except for the last two.
type Comparison int

// The kernel's results of drbd_uuid_compare.
const (
	Equal      Comparison = 0
	Source     Comparison = 1  // it sends what the bitmaps name
	SourceAll  Comparison = 2  // it sends everything
	Target     Comparison = -1 // it receives what the bitmaps name
	TargetAll  Comparison = -2 // it receives everything
	SplitBrain Comparison = -100
	Unrelated  Comparison = -1000
)

// Compare compares two replicas' generations as the kernel does, and returns the number that the
// kernel logs for the rule that decided ("uuid_compare()=-1 by rule 50"). The crashed flags say
// which replica was primary when its host, or its disk, was lost.
func Compare(own, peer Generations, ownCrashed, peerCrashed bool) (Comparison, int) {
	switch {
	case own.Current == JustCreated && peer.Current == JustCreated:
		return Equal, 10
	case own.Current == JustCreated:
		return TargetAll, 20
	case peer.Current == JustCreated:
		return SourceAll, 30
	case own.Current == peer.Current:
		return compareCrashed(ownCrashed, peerCrashed), 40
	case own.Current == peer.Bitmap:
		return Target, 50
	case peer.inHistory(own.Current):
		return TargetAll, 60
	case own.Bitmap == peer.Current:
		return Source, 70
	case own.inHistory(peer.Current):
		return SourceAll, 80
	case own.Bitmap != 0 && own.Bitmap == peer.Bitmap:
		return SplitBrain, 90
	case peer.inHistory(own.History[0]) || peer.inHistory(own.History[1]):
		return SplitBrain, 100
	}
	return Unrelated, 100
}

// compareCrashed decides between equal generations: who crashed as a primary may have writes that
// its peer does not have. Of two that did, the kernel takes the one that also decides who connects;
// Handshake takes the first.
func compareCrashed(own, peer bool) Comparison {
	switch {
	case own && !peer:
		return Source
	case peer && !own:
		return Target
	}
	return Equal
}
