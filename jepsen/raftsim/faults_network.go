package raftsim

import (
	"slices"
	"time"
)

func (w *world) tune(s Step, change func(*network)) bool {
	delay := w.network.delay
	w.network.change(func() { change(w.network) })
	time.Sleep(s.For)
	w.network.change(func() { w.network.delay, w.network.again = delay, 0; clear(w.network.rates) })
	return true
}

func (w *world) duplicate(s Step) bool {
	return w.tune(s, func(n *network) { n.again = 0.3 }) && w.network.repeated() > 0
}

func (w *world) slowLinks(s Step) bool {
	m := w.leading(s)
	return w.tune(s, func(n *network) {
		for _, other := range w.members {
			n.rates[[2]string{m.addr, other.addr}] = 8 << 10
		}
	})
}

// drop loses what is sent on one link after the other.
func (w *world) drop(s Step) bool {
	for end := time.Now().Add(s.For); time.Now().Before(end); {
		pair := w.some(s, 2)
		w.partition(Step{For: time.Duration(50+s.draw.IntN(250)) * time.Millisecond}, func(from, to *member) bool { return from == pair[0] && to == pair[1] })
		w.network.reset(func(from, to string) bool { return from == pair[0].addr && to == pair[1].addr })
	}
	return true
}

func (w *world) reset(s Step) bool {
	count := 0
	for end := time.Now().Add(s.For); time.Now().Before(end); time.Sleep(300 * time.Millisecond) {
		m := w.some(s, 1)[0]
		count += w.network.reset(func(from, to string) bool { return from == m.addr || to == m.addr })
	}
	return count > 0
}

func (w *world) flap(s Step) bool {
	m := w.some(s, 1)[0]
	for end := time.Now().Add(s.For); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		w.partition(Step{For: 200 * time.Millisecond}, alone(m))
	}
	return true
}

// partition blocks the links for which cut is true.
func (w *world) partition(s Step, cut func(from, to *member) bool) bool {
	cuts := 0
	w.network.change(func() {
		for _, from := range w.members {
			for _, to := range w.members {
				if from != to && cut(from, to) {
					w.network.blocked[[2]string{from.addr, to.addr}] = true
					cuts++
				}
			}
		}
	})
	time.Sleep(s.For)
	w.network.change(func() { clear(w.network.blocked) })
	return cuts > 0
}

func alone(m *member) func(from, to *member) bool {
	return func(from, to *member) bool { return from == m || to == m }
}

func oneWay(m *member) func(from, to *member) bool {
	return func(from, _ *member) bool { return from == m }
}

func halves(all []*member) func(from, to *member) bool {
	side := all[:len(all)/2]
	return func(from, to *member) bool { return slices.Contains(side, from) != slices.Contains(side, to) }
}

// bridge leaves the first member in reach of both halves.
func bridge(all []*member) func(from, to *member) bool {
	cut := halves(all[1:])
	return func(from, to *member) bool { return from != all[0] && to != all[0] && cut(from, to) }
}

// ring leaves each member in reach of its two neighbours; of three, of the first one only.
func ring(all []*member) func(from, to *member) bool {
	if len(all) < 4 {
		return bridge(all)
	}
	return func(from, to *member) bool {
		distance := (slices.Index(all, from) - slices.Index(all, to) + len(all)) % len(all)
		return distance != 1 && distance != len(all)-1
	}
}
