package netns

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// The rules of a host, one table. Packets of hosts in the set `deaf` are dropped as they come in: a host that is cut off does not
// hear, so that one direction can be cut alone.
const emptyRules = `
table inet holdfast {
	counter cut { }
	counter lost { }
	set deaf { type ipv4_addr; }
	chain loss { }
	chain come {
		type filter hook input priority 0; policy accept;
		ip saddr @deaf counter name cut drop
		jump loss
	}
	chain detour { }
	chain go {
		type nat hook output priority -100; policy accept;
		jump detour
	}
}
`

func (h *Host) makeRules(ctx context.Context) error { return h.nft(ctx, emptyRules) }

// nft puts rules in force, all or none.
func (h *Host) nft(ctx context.Context, rules string) error {
	return h.run(ctx, rules, "nft", "-f", "-")
}

// hearAllBut makes the host deaf for addresses, and hear all others.
func (h *Host) hearAllBut(ctx context.Context, deaf []string) error {
	rules := "flush set inet holdfast deaf\n"
	if len(deaf) > 0 {
		rules += "add element inet holdfast deaf { " + strings.Join(deaf, ", ") + " }\n"
	}
	return h.nft(ctx, rules)
}

// Dropped is how many packets the host did not hear because of shapes, and how many it lost by Lose.
func (h *Host) Dropped(ctx context.Context) (cut, lost int, err error) {
	cut, cutErr := h.counter(ctx, "cut")
	lost, lostErr := h.counter(ctx, "lost")
	return cut, lost, errors.Join(cutErr, lostErr)
}

var packets = regexp.MustCompile(`packets (\d+)`)

func (h *Host) counter(ctx context.Context, name string) (int, error) {
	text, err := h.output(ctx, "", "nft", "list", "counter", "inet", "holdfast", name)
	if err != nil {
		return 0, err
	}
	found := packets.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("read the counter %s of %s: no packets in %q", name, h.name, text)
	}
	return strconv.Atoi(found[1])
}
