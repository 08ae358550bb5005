package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// pageView is a run as the page shows it: lanes of bars on one scale of time.
type pageView struct {
	*Run
	Passed bool
	Lanes  []lane
	Ticks  []tick
	Hidden int // operations that are counted and not drawn
}

type lane struct {
	Name, Kind string
	Bars       []bar
}

type bar struct {
	Left, Width, Class, Title string
}

type tick struct{ Left, Label string }

func view(r *Run) pageView {
	v := pageView{Run: r, Passed: len(r.Problems) == 0, Hidden: -len(r.Operations)}
	for _, n := range r.Worked {
		v.Hidden += n
	}
	v.Lanes = slices.Concat(r.leaderLanes(), r.spanLanes("fault", r.Faults), r.spanLanes("outage", r.Outages), r.clientLanes())
	for i := range 11 {
		at := r.Took * time.Duration(i) / 10
		v.Ticks = append(v.Ticks, tick{percent(at, r.Took), at.Round(time.Millisecond).String()})
	}
	return v
}

func percent(at, whole time.Duration) string {
	return fmt.Sprintf("%.3f%%", 100*float64(at)/float64(max(whole, 1)))
}

func (r *Run) bar(from, to time.Duration, class, title string) bar {
	return bar{percent(from, r.Took), percent(to-from, r.Took), class, fmt.Sprintf("%v to %v: %s", from, to, title)}
}

// leaderLanes is one lane for each member that led: from its election to the next one's.
func (r *Run) leaderLanes() []lane {
	g := lanes{kind: "leader"}
	for i, l := range r.Leaders {
		end := r.Took
		if i+1 < len(r.Leaders) {
			end = r.Leaders[i+1].At
		}
		g.add("leader "+l.Member, r.bar(l.At, end, "leader", fmt.Sprintf("%s leads in term %d", l.Member, l.Term)))
	}
	return g.sorted()
}

// spanLanes is one lane for each kind of fault.
func (r *Run) spanLanes(class string, spans []Span) []lane {
	g := lanes{kind: class}
	for _, s := range spans {
		g.add(s.What, r.bar(s.From, s.To, class, strings.TrimSpace(s.What+" "+s.Where)))
	}
	return g.sorted()
}

// clientLanes is one lane for each client.
func (r *Run) clientLanes() []lane {
	g := lanes{kind: "client"}
	for _, op := range r.Operations {
		class := [...]string{"none", "ok", "refused", "unknown"}[op.Outcome]
		g.add(fmt.Sprintf("client %02d", op.Client), r.bar(op.From, op.To, class, fmt.Sprintf("%s: %s", op.Workload, op.What)))
	}
	return g.sorted()
}

// lanes gathers bars by lane.
type lanes struct {
	kind string
	all  []lane
}

func (g *lanes) add(name string, b bar) {
	i := slices.IndexFunc(g.all, func(l lane) bool { return l.Name == name })
	if i < 0 {
		i, g.all = len(g.all), append(g.all, lane{Name: name, Kind: g.kind})
	}
	g.all[i].Bars = append(g.all[i].Bars, b)
}

func (g *lanes) sorted() []lane {
	slices.SortStableFunc(g.all, func(a, b lane) int { return strings.Compare(a.Name, b.Name) })
	return g.all
}
