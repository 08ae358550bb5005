package admin

import (
	"bufio"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// backupPart is how much of a file goes in one message.
const backupPart = 64 << 10

// BackupRequest says which backup is wanted.
type BackupRequest struct {
	Stale     bool   // of the member's own state, which needs no quorum
	Increment bool   // the commands above Since, instead of the state
	Since     uint64 // of an increment
}

// Backup streams a backup file. The file's checksum tells the caller that it got all of it.
func (s *Server) Backup(req *adminpb.BackupRequest, out adminpb.Admin_BackupServer) error {
	if s.TakeBackup == nil {
		return status.Error(codes.Unimplemented, "this controller takes no backups")
	}
	parts := bufio.NewWriterSize(partWriter{out}, backupPart)
	wanted := BackupRequest{Stale: req.GetStale(), Increment: req.GetIncrement(), Since: req.GetSince()}
	if err := s.TakeBackup(out.Context(), wanted, parts); err != nil {
		return s.Error(err)
	}
	return parts.Flush()
}

// partWriter sends each Write as a message, which grpc has encoded when Send returns.
type partWriter struct{ out adminpb.Admin_BackupServer }

func (w partWriter) Write(b []byte) (int, error) {
	return len(b), w.out.Send(&adminpb.BackupResponse{Part: b})
}
