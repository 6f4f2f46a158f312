package rabbit_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// sendFrames publishes a message whose content header is given byte for byte, as
// another client wrote it: hexadecimal, without the frame around it. It returns
// when the broker has confirmed the message.
func (r *rig) sendFrames(queue, header string, body []byte) {
	r.Helper()
	u, err := amqp.ParseURI(r.url)
	r.must(err)
	conn, err := net.Dial("tcp", net.JoinHostPort(u.Host, strconv.Itoa(u.Port)))
	r.must(err)
	defer conn.Close()
	r.must(conn.SetDeadline(time.Now().Add(patience)))
	w := &wireClient{rig: r, conn: conn}
	_, err = conn.Write([]byte("AMQP\x00\x00\x09\x01"))
	r.must(err)
	w.expect(10, 10)
	w.method(0, 10, 11, "\x00\x00\x00\x00"+short("PLAIN")+long("\x00"+u.Username+"\x00"+u.Password)+short("en_US"))
	w.method(0, 10, 31, w.expect(10, 30)) // the limits as proposed
	w.method(0, 10, 40, short(u.Vhost)+short("")+"\x00")
	w.expect(10, 41)
	w.method(1, 20, 10, short(""))
	w.expect(20, 11)
	w.method(1, 85, 10, "\x00") // confirm.select
	w.expect(85, 11)
	w.method(1, 60, 40, "\x00\x00"+short("")+short(queue)+"\x00")
	payload, err := hex.DecodeString(strings.Join(strings.Fields(header), ""))
	r.must(err)
	w.frame(2, 1, payload)
	w.frame(3, 1, body)
	w.expect(60, 80) // basic.ack
}

// wireClient speaks as little AMQP as that needs.
type wireClient struct {
	*rig
	conn net.Conn
}

func (w *wireClient) frame(kind byte, channel uint16, payload []byte) {
	w.Helper()
	var b bytes.Buffer
	b.WriteByte(kind)
	b.Write(binary.BigEndian.AppendUint16(nil, channel))
	b.Write(binary.BigEndian.AppendUint32(nil, uint32(len(payload))))
	b.Write(payload)
	b.WriteByte(0xCE)
	_, err := w.conn.Write(b.Bytes())
	w.must(err)
}

func (w *wireClient) method(channel, class, method uint16, args string) {
	w.Helper()
	head := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, class), method)
	w.frame(1, channel, append(head, args...))
}

// expect reads the next method and returns its arguments.
func (w *wireClient) expect(class, method uint16) string {
	w.Helper()
	head := make([]byte, 7)
	_, err := io.ReadFull(w.conn, head)
	w.must(err)
	payload := make([]byte, binary.BigEndian.Uint32(head[3:])+1)
	_, err = io.ReadFull(w.conn, payload)
	w.must(err)
	if c, m := binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:]); head[0] != 1 || c != class || m != method {
		w.Fatalf("got frame %d with method %d.%d, want %d.%d: %q", head[0], c, m, class, method, payload)
	}
	return string(payload[4 : len(payload)-1])
}

func short(s string) string { return string(rune(len(s))) + s } // under 128 bytes

func long(s string) string {
	return string(binary.BigEndian.AppendUint32(nil, uint32(len(s)))) + s
}
