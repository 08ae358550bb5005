package controller

import (
	"time"

	"github.com/holdfast-storage/holdfast/fsm"
)

// Hasten shortens a server's patience for tests.
func Hasten(s *Server, look, unstage time.Duration) {
	s.log.LookAgain, s.unstagePatience, s.severPatience = look, unstage, unstage
}

// Token is the token of ListVolumes after a volume.
func Token(id fsm.VolumeID, incarnation uint64) string {
	return volumeList.token(string(id), incarnation)
}

// ParameterKeys and MutableKeys are what classes can say.
var ParameterKeys, MutableKeys = parameterKeys, mutableKeys
