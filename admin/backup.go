package admin

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// backupPart is how much of a file goes in one message.
const backupPart = 64 << 10

// recordTimeout is how long a call waits until the log has recorded it.
const recordTimeout = 10 * time.Second

// BackupRequest says which backup is wanted.
type BackupRequest struct {
	Stale     bool   // of the member's own state, which needs no quorum
	Increment bool   // the commands above Since, instead of the state
	Since     uint64 // of an increment
	// BaseCluster, BaseIncarnation and BaseIncarnationID are of the backup that an increment continues; empty: it is not known.
	BaseCluster       string
	BaseIncarnation   uint64
	BaseIncarnationID string
}

// Backup streams a backup file. The file's checksum tells the caller that it got all of it.
func (s *Server) Backup(req *adminpb.BackupRequest, out adminpb.Admin_BackupServer) error {
	if s.TakeBackup == nil {
		return status.Error(codes.Unimplemented, "this controller takes no backups")
	}
	if err := s.recordBackup(out.Context(), req); err != nil {
		return err
	}
	parts := bufio.NewWriterSize(partWriter{out}, backupPart)
	wanted := BackupRequest{
		Stale: req.GetStale(), Increment: req.GetIncrement(), Since: req.GetSince(),
		BaseCluster: req.GetBaseClusterId(), BaseIncarnation: req.GetBaseIncarnation(), BaseIncarnationID: req.GetBaseIncarnationId(),
	}
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

// recordBackup records who takes a backup, as it has the whole state in it. Of a controller's own state it is taken without a quorum
// too, where the log takes nothing: the controller's own log has it then.
func (s *Server) recordBackup(ctx context.Context, req *adminpb.BackupRequest) error {
	c, err := s.newKeptCall(ctx, req.GetReason())
	if err != nil {
		return err
	}
	subject := "of the state"
	if req.GetIncrement() {
		subject = fmt.Sprintf("of the commands above index %d", req.GetSince())
	}
	if req.GetStale() {
		return s.recordOrGoOn(ctx, c, "backup", subject)
	}
	return s.record(ctx, c, "backup", subject)
}
