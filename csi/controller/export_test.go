package controller

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// ShortenTimeouts shortens a server's patience for tests.
func ShortenTimeouts(s *Server, pollInterval, timeout time.Duration) {
	s.client.PollInterval, s.progress.unstageTimeout, s.progress.isolationTimeout = pollInterval, timeout, timeout
}

// Token is the token of ListVolumes after a volume.
func Token(id fsm.VolumeID, incarnation uint64) string {
	return volumeTokens.Encode(string(id), incarnation)
}

// ParameterKeys and MutableKeys are what classes can say.
var ParameterKeys, MutableKeys = parameterKeys, mutableKeys
