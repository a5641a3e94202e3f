-- now_ns. ARGV: clock.
return {"ok", text(read_clock())}
