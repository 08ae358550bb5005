package netns

import (
	"context"
	"fmt"
)

// Lose has the host lose so many of 100 packets from other hosts as they come in; 0 ends that.
func (h *Host) Lose(ctx context.Context, percent int) error {
	rules := "flush chain inet holdfast loss\n"
	if percent > 0 {
		rules += fmt.Sprintf("add rule inet holdfast loss ip saddr != { %s, %s, 127.0.0.0/8 } numgen random mod 100 <= %d counter name lost drop\n",
			h.address, operator, min(percent, 100)-1)
	}
	return h.nft(ctx, rules)
}
