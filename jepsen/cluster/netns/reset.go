package netns

import (
	"context"
	"strings"
)

// Reset ends the host's live connections with other hosts by a reset, as a firewall that lost its table does, and answers
// how many there were.
func (h *Host) Reset(ctx context.Context) (int, error) {
	text, err := h.output(ctx, "", "ss", "-K", "-H", "-t", "-n", "state", "established", "src", h.address)
	if err != nil {
		return 0, err
	}
	return len(strings.Fields(text)) / columns, nil
}

// columns of a line of ss: the two queues and the two addresses.
const columns = 4
