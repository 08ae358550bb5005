package netns

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Pair is one direction between two hosts.
type Pair struct{ From, To *Host }

// Shape is a partition: the directions in which nothing arrives.
type Shape []Pair

// String names the directions.
func (s Shape) String() string {
	var parts []string
	for _, p := range s {
		parts = append(parts, p.From.name+">"+p.To.name)
	}
	return strings.Join(parts, " ")
}

// OneWay has nothing arrive that some hosts send to others.
func OneWay(from, to []*Host) (s Shape) {
	for _, a := range from {
		for _, b := range to {
			if a != b {
				s = append(s, Pair{a, b})
			}
		}
	}
	return s
}

// Between cuts hosts from others, both ways.
func Between(some, others []*Host) Shape {
	return append(OneWay(some, others), OneWay(others, some)...)
}

// Isolate cuts one host from all others.
func Isolate(all []*Host, one *Host) Shape { return Between([]*Host{one}, without(all, one)) }

// Bridge cuts two sides that both reach one host in the middle.
func Bridge(all []*Host, middle *Host) Shape {
	rest := without(all, middle)
	return Between(rest[:len(rest)/2], rest[len(rest)/2:])
}

// Ring lets each host reach the one before and the one after it only. Below four hosts that cuts nothing, so that the last
// and the first are cut too: a chain.
func Ring(all []*Host) (s Shape) {
	for i, a := range all {
		for j, b := range all {
			distance := (j - i + len(all)) % len(all)
			near := distance == 1 || distance == len(all)-1
			if len(all) < 4 {
				near = i-j == 1 || j-i == 1
			}
			if i != j && !near {
				s = append(s, Pair{a, b})
			}
		}
	}
	return s
}

func without(all []*Host, one *Host) []*Host {
	return slices.DeleteFunc(slices.Clone(all), func(h *Host) bool { return h == one })
}

// Apply puts a shape in force in place of the one that was. The hosts change one after the other, as
// switches do.
func (n *Network) Apply(ctx context.Context, shape Shape) error {
	deaf := map[*Host][]string{}
	for _, p := range shape {
		deaf[p.To] = append(deaf[p.To], p.From.address)
	}
	var errs []error
	for _, h := range n.Hosts() {
		slices.Sort(deaf[h])
		errs = append(errs, h.hearAllBut(ctx, slices.Compact(deaf[h])))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cut %s: %w", shape, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cuts = slices.Clone(shape)
	return nil
}

// Heal lets all hosts reach all.
func (n *Network) Heal(ctx context.Context) error { return n.Apply(ctx, nil) }

// Cut is the shape that is in force.
func (n *Network) Cut() Shape {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.cuts)
}
