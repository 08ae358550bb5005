package session

import (
	"strconv"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// levelHeaderKey is the header of a session in which a controller sends the cluster's feature
// level, so that the host's first message has no field above it: a controller of level 1 would
// put that field on the log, where builds would apply it differently (S72).
const levelHeaderKey = "holdfast-feature-level"

// knownLevel is the cluster's feature level, 0 while this controller does not know it.
func (s *Server) knownLevel() (level uint32) {
	_ = s.member.View(func(state *fsm.State) error {
		level = state.Cluster().FeatureLevel
		return nil
	}) // before the member runs there is no state
	return level
}

// levelHeader is empty while this controller does not know the level.
func levelHeader(level uint32) metadata.MD {
	if level == 0 {
		return nil
	}
	return metadata.Pairs(levelHeaderKey, strconv.FormatUint(uint64(level), 10))
}

// checkLevelSent refuses a registration that was made for a lower level than the cluster's: it lacks what the level
// introduced, such as the addresses by which a fence finds the host (S57). The host begins again with the level's header.
func (s *Server) checkLevelSent(sent uint32) error {
	if level := s.knownLevel(); level > max(sent, fsm.Level1) {
		return status.Errorf(codes.Unavailable, "this controller has learned that the cluster runs at feature level %d: begin the session again", level)
	}
	return nil
}

// levelFromHeader is the level that the controller sent, and level 1 when it is too old to send one.
func levelFromHeader(header metadata.MD) uint32 {
	values := header.Get(levelHeaderKey)
	if len(values) == 0 {
		return fsm.Level1
	}
	level, err := strconv.ParseUint(values[0], 10, 32)
	if err != nil {
		return fsm.Level1
	}
	return max(fsm.Level1, uint32(level))
}

// noteHeaderLevel returns the level of a session's header. A controller that sends none, or a lower
// one than is known, has not read its log yet: what the host may propose stays as it was
// until an update carries another level.
func (c *Client) noteHeaderLevel(header metadata.MD) uint32 {
	level := levelFromHeader(header)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clusterLevel = max(c.clusterLevel, level)
	return level
}

// setLevel notes the cluster's level.
func (c *Client) setLevel(level uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clusterLevel = level
}

// checkLevel refuses a command above the cluster's feature level. A controller
// of that level cannot refuse it: it does not see the fields that it does not know (S72).
func (c *Client) checkLevel(cmd *fsmpb.Command) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.clusterLevel == 0 { // no session yet: a controller that knows refuses it
		return nil
	}
	if rej := fsm.TooNew(c.clusterLevel, cmd); rej != nil {
		return rej
	}
	return nil
}
