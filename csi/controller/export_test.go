package controller

import "time"

// Hasten shortens a server's patience for tests.
func Hasten(s *Server, look, unstage time.Duration) {
	s.log.LookAgain, s.unstagePatience = look, unstage
}

// Token is the token after a volume.
var Token = token
