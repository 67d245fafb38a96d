# flushing: each line of a log is handed to the system by itself; repaired, when there is enough. unseen_flushing.rb [repaired]
require "tempfile"

REPAIRED = !ARGV.empty?
LOG = Tempfile.create("run-case-", "/var/tmp")
File.unlink(LOG.path)

def log_event(level, text)
  LOG.puts("#{level}: #{text}")
  LOG.flush unless REPAIRED
end

def handle(number)
  log_event("info", "begin of #{number}")
  sum = number
  10.times { |i| sum = (sum * 31 + i) % 1_000_003 }
  log_event("info", "end of #{number}")
  sum
end

puts (0...250_000).sum { |number| handle(number) }
